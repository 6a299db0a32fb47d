package mutant

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/leasestorm/leasestorm/sim"
)

// Mutant is one lease that is broken on purpose.
type Mutant struct {
	Name   string // [a-z0-9-]
	Story  string // what it does wrong, and who ships it so
	By     Operator
	Edits  []Edit
	Drop   Drop   // or what is not looked at
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

// files are those that are changed.
func (m *Mutant) files() (all []string) {
	for _, e := range m.Edits {
		all = append(all, e.File)
	}
	if m.Drop.Script != "" {
		all = append(all, m.Drop.Script)
	}
	return all
}

func isScript(file string) bool { return strings.HasSuffix(file, ".lua") }

func (e Edit) apply(text string, places []place) (string, []place, error) {
	if n := strings.Count(text, e.Old); n != 1 || e.Old == e.New {
		return "", nil, fmt.Errorf("%w: these words stand in %s %d times, they must once:\n%s", ErrDisarmed, e.File, n, e.Old)
	}
	text, places = replaceAt(text, strings.Index(text, e.Old), e.Old, e.New, places)
	return text, places, nil
}

func (d Drop) apply(text string, places []place) (string, []place, error) {
	for _, o := range Drops(d.Script, text) {
		if o.What == d.What && o.Nth == d.Nth {
			text, places = replaceAt(text, o.from, text[o.from:o.to], fmt.Sprint(o.As), places)
			return text, places, nil
		}
	}
	return "", nil, fmt.Errorf("%w: no condition of %s has a part %d that reads %s", ErrDisarmed, d.Script, d.Nth, d.What)
}

// scripts reports whether the store is changed, which virtual time otherwise replaces by a model of it.
func (m *Mutant) scripts() bool {
	return slices.ContainsFunc(m.files(), func(file string) bool { return strings.HasPrefix(file, "internal/redisstore/") })
}

// onlyScripts reports whether nothing but Lua is changed.
func (m *Mutant) onlyScripts() bool {
	return !slices.ContainsFunc(m.files(), func(file string) bool { return !isScript(file) })
}

// Marked reports whether its mark is seen. A Redis server calls none: there nothing else than the script can have failed the
// test.
func (m *Mutant) Marked() bool {
	return m.Test == "" || !m.onlyScripts() || strings.HasPrefix(m.Package, "sim/")
}

// ErrDisarmed is the condition of an edit whose words do not stand in the file exactly once.
var ErrDisarmed = errors.New("mutant disarmed")

// All returns every mutant, in the order in which they are shown.
func All() []Mutant {
	all := append([]Mutant(nil), rules...)
	all = append(all, scripts...)
	all = append(all, shell...)
	all = append(all, replicas...)
	all = append(all, replicated...)
	all = append(all, late...)
	all = append(all, words...)
	all = append(all, elections...)
	all = append(all, intents...)
	return append(all, drops()...)
}

// Apply returns the changed files of the module at root, by their path on disk, with the marks that show that what was changed
// ran. Where no mark is seen (Marked), there is none.
func (m *Mutant) Apply(root string) (map[string]string, error) {
	files, places := map[string]string{}, map[string][]place{}
	change := func(file string, apply func(string, []place) (string, []place, error)) error {
		text, ok := files[file]
		if !ok {
			data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
			if err != nil {
				return err
			}
			text = string(data)
		}
		var err error
		files[file], places[file], err = apply(text, places[file])
		return err
	}
	for _, e := range m.Edits {
		if err := change(e.File, e.apply); err != nil {
			return nil, fmt.Errorf("mutant %s: %w", m.Name, err)
		}
	}
	if m.Drop.Script != "" {
		if err := change(m.Drop.Script, m.Drop.apply); err != nil {
			return nil, fmt.Errorf("mutant %s: %w", m.Name, err)
		}
	}
	return m.mark(root, files, places)
}

// mark puts the marks into the files that were changed, and adds those that declare them.
func (m *Mutant) mark(root string, files map[string]string, places map[string][]place) (map[string]string, error) {
	out, marks := map[string]string{}, 0
	put := func(file, text string) { out[filepath.Join(root, filepath.FromSlash(file))] = text }
	for file, text := range files {
		if isScript(file) {
			put(file, markLua(text, places[file]))
			marks++
			continue
		}
		marked, pkg, err := markGo(file, text, places[file])
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrDisarmed, m.Name, err)
		}
		put(file, marked)
		if pkg != "" {
			marks++
			put(markOf(path.Dir(file), pkg))
		}
	}
	if marks == 0 {
		return nil, fmt.Errorf("%w: %s changes no statement, which a mark could stand before", ErrDisarmed, m.Name)
	}
	if slices.ContainsFunc(m.files(), isScript) {
		return out, interpreterMarks(root, out)
	}
	return out, nil
}

// interpreterMarks adds to files what makes the interpreter call the marks of scripts.
func interpreterMarks(root string, files map[string]string) error {
	file := filepath.Join(root, filepath.FromSlash(interpreterFile))
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if strings.Count(string(data), interpreterOld) != 1 {
		return fmt.Errorf("%w: %s stands not once in %s", ErrDisarmed, interpreterOld, interpreterFile)
	}
	files[file] = strings.Replace(string(data), interpreterOld, interpreterNew, 1)
	files[filepath.Join(root, filepath.FromSlash(marksFile))] = marksText
	return nil
}

// Overlay writes the changed files into dir and returns the name of the file that "go build -overlay" takes.
func (m *Mutant) Overlay(root, dir string) (string, error) {
	files, err := m.Apply(root)
	if err != nil {
		return "", err
	}
	return overlayOf(files, dir)
}

// overlayOf names what it writes by folder and file, which tells them all apart.
func overlayOf(files map[string]string, dir string) (string, error) {
	replace := map[string]string{}
	for path, text := range files {
		name := filepath.Join(dir, overlayName(path))
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

func overlayName(path string) string {
	dir := filepath.Dir(path)
	if filepath.Base(dir) == "lua" {
		dir = filepath.Dir(dir)
	}
	return filepath.Base(filepath.Dir(dir)) + "-" + filepath.Base(dir) + "-" + filepath.Base(path)
}

// A file is added to each store in the hunter that all mutants of scripts share: in the place of the scripts that are embedded
// it takes those that it finds in the folder readerEnv. Its name comes first, so that it is initialized first.
const (
	readerEnv  = "MUTANT_SCRIPTS"
	readerText = `package %[1]s

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

var _ = readScripts(map[string]*string{
%[2]s})

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

// readers are the files of the hunter that reads its scripts.
func readers(root string) (map[string]string, error) {
	files := map[string]string{}
	for _, lua := range []string{luaDir, intentLua} {
		scripts, err := filepath.Glob(filepath.Join(root, lua, "*.lua"))
		if err != nil {
			return nil, err
		}
		dir := path.Dir(path.Clean(lua))
		var rows strings.Builder
		for _, s := range scripts {
			name := strings.TrimSuffix(filepath.Base(s), ".lua")
			fmt.Fprintf(&rows, "\t%q: &%sText,\n", overlayName(s), name)
		}
		files[filepath.Join(root, dir, "a_mutant.go")] = fmt.Sprintf(readerText, path.Base(dir), rows.String())
	}
	return files, interpreterMarks(root, files)
}
