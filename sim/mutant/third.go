package mutant

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Turn returns which third of the mutants the sources of the module at root (scripts/sources) choose: 0, 1 or 2. Every change of
// them chooses anew, and the same sources the same, so that what a CI finds is found again.
func Turn(root string) (int, error) {
	list, err := exec.Command(filepath.Join(root, "scripts", "sources")).Output()
	if err != nil {
		return 0, fmt.Errorf("list the sources: %w", err)
	}
	sum := sha256.New()
	for name := range strings.FieldsSeq(string(list)) {
		data, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return 0, err
		}
		sum.Write(data)
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
