package mutant

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Control runs what catches the mutants with nothing changed, and returns an error for each thing that fails all the same:
// it would have caught nobody. It is a list of jobs, to be run side by side.
func (r *Runner) Control(mutants []Mutant) []func(context.Context) error {
	var jobs []func(context.Context) error
	seen := map[string]int{} // of virtual runs: the index in runs
	var runs []Mutant
	tests := map[string][]string{}
	for _, m := range mutants {
		switch {
		case m.Test != "":
			if !slices.Contains(tests[m.Package], m.Test) {
				tests[m.Package] = append(tests[m.Package], m.Test)
			}
		default:
			key, _ := json.Marshal(m.Scenario) // a scenario is plain data
			i, ok := seen[fmt.Sprint(string(key), m.scripts())]
			if !ok {
				i = len(runs)
				seen[fmt.Sprint(string(key), m.scripts())] = i
				runs = append(runs, Mutant{Name: m.Name, Scenario: m.Scenario, Edits: m.Edits, Drop: m.Drop})
			}
			runs[i].Seeds = max(runs[i].Seeds, m.Seeds)
		}
	}
	for _, m := range runs {
		jobs = append(jobs, func(ctx context.Context) error {
			hunter, err := r.scriptHunter(ctx)
			if err != nil {
				return err
			}
			reports := filepath.Join(r.Dir, "control-"+m.Name)
			c, err := r.send(ctx, hunter, []string{readerEnv + "=" + r.Dir},
				Order{Scenario: m.Scenario, Seeds: m.Seeds, Lua: m.scripts(), Reports: reports})
			return holds(fmt.Sprintf("seeds 1 to %d of %s and its like", m.Seeds, m.Name), c, err)
		})
	}
	for pkg, names := range tests {
		jobs = append(jobs, func(ctx context.Context) error {
			_, err := r.command(ctx, nil, "go", "test", "-count=1", "-vet=off", "-run", "^("+strings.Join(names, "|")+")$", "./"+pkg)
			return err
		})
	}
	return jobs
}

func holds(what string, c Catch, err error) error {
	if err == nil && len(c.Broke) > 0 {
		err = fmt.Errorf("%s: with nothing changed, seed %d breaks %s: %s", what, c.Seed, strings.Join(c.Broke, ", "), c.Detail)
	}
	return err
}
