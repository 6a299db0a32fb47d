package mutant

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Files that "make mutants UPDATE=1" writes, inside the module.
const (
	PageFile   = "docs/mutants.md"
	CaughtFile = "sim/mutant/testdata/caught.json" // name of the mutant → Catch, when it was last hunted with UPDATE=1
)

// Save enters what was found into CaughtFile and writes PageFile anew.
func Save(root string, results []Result) error {
	caught, err := loadCaught(root)
	if err != nil {
		return err
	}
	kept := map[string]Catch{}
	for _, m := range All() {
		if c, ok := caught[m.Name]; ok {
			kept[m.Name] = c
		}
	}
	for _, r := range results {
		r.Catch.Detail = ""
		if r.Catch.Confirmed == "" {
			r.Catch.Confirmed = caught[r.Name].Confirmed
		}
		kept[r.Name] = r.Catch
	}
	data, err := json.MarshalIndent(kept, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(root, CaughtFile), append(data, '\n'), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, PageFile), []byte(page(kept)), 0o644)
}

func loadCaught(root string) (map[string]Catch, error) {
	caught := map[string]Catch{}
	data, err := os.ReadFile(filepath.Join(root, CaughtFile))
	if errors.Is(err, fs.ErrNotExist) {
		return caught, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &caught)
	}
	return caught, err
}

// Uncaught is a mutant that was tried and that no guarantee catches.
type Uncaught struct{ Name, Story, Why string }

const pageHead = `# Mutants

<!-- Written by "make mutants UPDATE=1"; what it says of a mutant stands in sim/mutant. -->

A judge that finds nothing may be blind. So leases are broken on purpose, each by a few changed words in a file of the library, and
each must be caught by the guarantee that it breaks ([guarantees.md](guarantees.md)). %s

- *In virtual time*: seeds 1, 2, 3, … are run until one breaks a guarantee; "seed 3 of 50" says that the third did and that more
  than 50 would turn the build red. The first seed that breaks anything must break the mutant's own guarantee; what else it
  breaks is named too. Seeds are drawn as explorations draw them, except where a scenario is given.
- *By a test*, where the fault lies in what virtual time replaces: under a fake clock, or against a Redis server.

The same seeds and tests pass with nothing changed, and each mutant proves that what is changed in it ran: by a mark, which is put
before the statement, or by its test alone where that runs a script on a Redis server. One whose mark is not seen is an error, not a
survivor. An operator is the kind of the change; each is tried on scripts, shell, elections and intents.

The smallest plan is what ` + "`simulate shrink`" + ` makes of the seed.

    make mutants                      hunt a third, which follows from the sources; fails if one survives, or is caught by another guarantee
    make mutants ALL=1                hunt them all (part of make soak, with scripts/mutants-real)
    make mutants ONLY=fence           those whose name matches
    make mutants UPDATE=1             hunt, shrink, and write this page anew (with ONLY: those rows of it)

To look at one: its first failing seed leaves a folder with a page ([report.md](report.md)). Scripts need ` + "`--lua`" + `,
elections and intents ` + "`--system`" + `, and a row that says "only" its kinds as ` + "`--faults`" + `.

    go build -overlay "$(go run ./sim/mutant/gate -overlay fence-constant)" -o bin/mutated ./cmd/simulate
    bin/mutated --seeds 1-20 --lua
`

// page is docs/mutants.md.
func page(caught map[string]Catch) string {
	var b strings.Builder
	var results []Result
	for _, m := range All() {
		results = append(results, Result{Mutant: m, Catch: caught[m.Name]})
	}
	fmt.Fprintf(&b, pageHead, fmt.Sprintf("These are the %d.", len(results)))
	for _, g := range groups {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| mutant | operator | breaks | caught by | smallest plan |\n|---|---|---|---|---|\n", g.title, g.text)
		for _, r := range results {
			if slices.ContainsFunc(g.mutants, func(m Mutant) bool { return m.Name == r.Name }) {
				fmt.Fprintf(&b, "| `%s`: %s | %s | %s | %s | %s |\n", r.Name, r.Story, r.By, r.breaks(), r.caught(), r.Catch.Plan)
			}
		}
	}
	b.WriteString(confirmedText(results))
	b.WriteString("\n## Tried, and caught by no guarantee\n\n")
	for _, u := range uncaught {
		fmt.Fprintf(&b, "- `%s`: %s %s\n", u.Name, u.Story, u.Why)
	}
	for _, s := range spared {
		fmt.Fprintf(&b, "- `%s`: `%s` of %s is not looked at. %s\n", s.Drop.Name(), s.Drop.What, path.Base(s.Drop.Script), s.Why)
	}
	b.WriteString("\n## Operators that make no sense\n\n")
	for _, area := range Areas {
		for _, by := range Operators {
			if why := senseless[area][by]; why != "" {
				fmt.Fprintf(&b, "- %s, %s: %s.\n", area, by, why)
			}
		}
	}
	return b.String()
}

func (r Result) breaks() string {
	if r.Why == "" {
		return r.Breaks
	}
	return r.Breaks + ": " + r.Why
}

func (r Result) caught() string {
	if r.Test != "" {
		return fmt.Sprintf("`%s` in %s", r.Test, r.Package)
	}
	text := fmt.Sprintf("seed %d of %d", r.Catch.Seed, r.Seeds)
	if len(r.Scenario.Faults) > 0 {
		var kinds []string
		for _, k := range r.Scenario.Faults {
			kinds = append(kinds, string(k))
		}
		text += ", only " + strings.Join(kinds, ", ")
	}
	if r.Scenario.Replicas != nil {
		text += fmt.Sprintf(", %d replicas", *r.Scenario.Replicas)
	}
	others := slices.DeleteFunc(slices.Clone(r.Catch.Broke), func(id string) bool { return id == r.Breaks })
	if len(others) > 0 {
		text += "; breaks " + strings.Join(others, ", ") + " too"
	}
	return text
}

const confirmedHead = `
## Confirmed on the real engine

The smallest plan of a mutant, on processes and a Redis server that run the mutant (scripts need --lua while shrinking):

    go build -overlay "$(go run ./sim/mutant/gate -overlay fence-constant)" -o bin/mutated ./cmd/simulate
    bin/mutated shrink 1 --lua --scenario sim/mutant/testdata/confirm.yaml --faults crash --criteria G3 --confirm-real

`

func confirmedText(results []Result) string {
	var b strings.Builder
	for _, r := range results {
		if r.Catch.Confirmed != "" {
			fmt.Fprintf(&b, "- `%s`: %s\n", r.Name, r.Catch.Confirmed)
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return confirmedHead + b.String()
}

type group struct {
	title, text string
	mutants     []Mutant
}

var groups = []group{
	{"Of the rules", "`internal/core`, in virtual time.", rules},
	{"Of the scripts", "`internal/redisstore`: the Lua scripts, run by an interpreter in virtual time.", scripts},
	{"Of the shell", "`internal/policy`, `internal/redisstore`, `lease/poll`: decisions, clocks and connections around the rules.", shell},
	{
		"Of replicas", "[replicas.md](replicas.md): in virtual time, in storms with replicas, and by tests on real servers.",
		slices.Concat(replicated, late, replicas),
	},
	{"Of conditions of scripts", conditionsText, drops()},
	{"Of elections", "`internal/core/election`, in virtual time or by the stories of its tests.", elections},
	{"Of words", "What instances say, in virtual time.", words},
	{"Of intents", "`lease/intent`, `internal/core/intent`, `internal/membership`: API, bus and worker, in virtual time.", intents},
}
