package mutant

import (
	"crypto/sha256"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Turn returns which third of the mutants the sources of the module at root choose: 0, 1 or 2. Every change of them chooses anew,
// and the same sources the same, so that what a CI finds is found again.
func Turn(root string) (int, error) {
	sum := sha256.New()
	for _, dir := range []string{"cmd", "internal", "lease", "sim"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !slices.Contains([]string{".go", ".lua"}, filepath.Ext(path)) {
				return err
			}
			data, err := os.ReadFile(path)
			sum.Write(data)
			return err
		})
		if err != nil {
			return 0, err
		}
	}
	return int(sum.Sum(nil)[0]) % 3, nil // 256 are one more than three times 85
}

// Third returns every third mutant, from the given one on: some of each area and operator, since they are listed by those.
func Third(all []Mutant, which int) (some []Mutant) {
	for i := range all {
		if i%3 == which {
			some = append(some, all[i])
		}
	}
	return some
}
