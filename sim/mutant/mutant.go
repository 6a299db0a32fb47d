package mutant

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/leasestorm/leasestorm/sim"
)

// Mutant is one lease that is broken on purpose.
type Mutant struct {
	Name   string // [a-z0-9-]
	Story  string // what it does wrong, and who ships it so
	Edits  []Edit
	Breaks string // the guarantee that must catch it
	Why    string // that one, where another would be expected; may be empty

	// In virtual time: it is caught within so many seeds, and what Scenario says is the same in all of them.
	Seeds    uint64
	Scenario sim.Scenario

	// By a test instead: package and name, the guarantee behind its signature.
	Package, Test string
}

// Edit replaces Old, which stands in File exactly once, by New.
type Edit struct {
	File     string // inside the module
	Old, New string
}

// scripts reports whether the store is changed, which virtual time otherwise replaces by a model of it.
func (m *Mutant) scripts() bool {
	return slices.ContainsFunc(m.Edits, func(e Edit) bool { return strings.HasPrefix(e.File, "lease/redisstore/") })
}

// onlyScripts reports whether nothing but the Lua of leases is changed.
func (m *Mutant) onlyScripts() bool {
	return !slices.ContainsFunc(m.Edits, func(e Edit) bool { return !strings.HasPrefix(e.File, luaDir) })
}

// ErrDisarmed is the condition of an edit whose words do not stand in the file exactly once.
var ErrDisarmed = errors.New("mutant disarmed")

// All returns every mutant, in the order in which they are shown.
func All() []Mutant {
	all := append([]Mutant(nil), rules...)
	all = append(all, scripts...)
	all = append(all, shell...)
	all = append(all, words...)
	return append(all, intents...)
}

// Apply returns the changed files of the module at root, by their path on disk.
func (m *Mutant) Apply(root string) (map[string]string, error) {
	files := map[string]string{}
	for _, e := range m.Edits {
		path := filepath.Join(root, filepath.FromSlash(e.File))
		text, ok := files[path]
		if !ok {
			data, err := os.ReadFile(path)
			if err != nil {
				return nil, fmt.Errorf("mutant %s: %w", m.Name, err)
			}
			text = string(data)
		}
		if n := strings.Count(text, e.Old); n != 1 || e.Old == e.New {
			return nil, fmt.Errorf("%w: %s: these words stand in %s %d times, they must once:\n%s", ErrDisarmed, m.Name, e.File, n,
				e.Old)
		}
		files[path] = strings.Replace(text, e.Old, e.New, 1)
	}
	return files, nil
}

// Overlay writes the changed files into dir and returns the name of the file that "go build -overlay" takes.
func (m *Mutant) Overlay(root, dir string) (string, error) {
	files, err := m.Apply(root)
	if err != nil {
		return "", err
	}
	return overlayOf(files, dir)
}

func overlayOf(files map[string]string, dir string) (string, error) {
	replace := map[string]string{}
	for path, text := range files {
		name := filepath.Join(dir, filepath.Base(path))
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			return "", err
		}
		replace[path] = name
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, "overlay.json")
	return name, os.WriteFile(name, data, 0o644)
}

// readerFile is added to the store in the hunter that all mutants of scripts share: in the place of the scripts that are
// embedded it takes those that it finds in the folder readerEnv. Its name comes first, so that it is initialized first.
const (
	readerFile = "lease/redisstore/a_mutant.go"
	readerEnv  = "MUTANT_SCRIPTS"
	readerText = `package redisstore

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

var _ = readScripts(map[string]*string{
	"epoch.lua": &epochText, "acquire.lua": &acquireText, "renew.lua": &renewText, "reassert.lua": &reassertText,
	"release.lua": &releaseText, "beat.lua": &beatText,
})

func readScripts(texts map[string]*string) bool {
	for name, text := range texts {
		data, err := os.ReadFile(filepath.Join(os.Getenv("MUTANT_SCRIPTS"), name))
		switch {
		case err == nil:
			*text = string(data)
		case !errors.Is(err, fs.ErrNotExist):
			panic(err)
		}
	}
	return true
}
`
)
