// Command gate hunts every mutant and fails if one survives or is caught by another guarantee than its own. "make mutants"
// runs it in the root of the module.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/leasestorm/leasestorm/sim/mutant"
)

var (
	only     = flag.String("only", "", "hunt only mutants whose name matches this `REGEXP`")
	third    = flag.Bool("third", false, "hunt only a third of them, chosen by the sources")
	update   = flag.Bool("update", false, "shrink each plan and write docs/mutants.md anew")
	parallel = flag.Int("parallel", 2, "mutants at a time")
	overlay  = flag.String("overlay", "", "only print the overlay of this `MUTANT`, for go build -overlay, and leave its files")
	verbose  = flag.Bool("v", false, "say what broke")
)

func main() {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := gate(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

var errRed = errors.New("not every mutant is killed by its guarantee")

func gate(ctx context.Context) error {
	pattern, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return err
	}
	if *overlay != "" {
		return printOverlay(root, dir)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	r := &mutant.Runner{Root: root, Dir: dir, Shrink: *update}
	begin := time.Now()
	all, err := chosen(root, pattern)
	if err != nil {
		return err
	}
	results := make([]mutant.Result, len(all))
	var jobs []func()
	for i := range all {
		jobs = append(jobs, func() {
			results[i] = r.Run(ctx, all[i])
			show(results[i])
		})
	}
	var mu sync.Mutex
	var failed error
	for _, job := range r.Control(all) {
		jobs = append(jobs, func() {
			err := job(ctx)
			mu.Lock()
			defer mu.Unlock()
			failed = errors.Join(failed, err)
		})
	}
	sideBySide(*parallel, jobs)
	red := 0
	var killed []mutant.Result
	for _, res := range results {
		if res.State != mutant.Killed {
			red++
		} else {
			killed = append(killed, res)
		}
	}
	if *update {
		if err := mutant.Save(root, killed); err != nil {
			return err
		}
	}
	fmt.Printf("%d of %d mutants killed by their guarantee, in %v\n", len(all)-red, len(all), time.Since(begin).Round(time.Second))
	switch {
	case failed != nil:
		return fmt.Errorf("the control run failed: %w", failed)
	case red > 0:
		return errRed
	}
	return nil
}

// chosen returns the mutants that are to be hunted.
func chosen(root string, pattern *regexp.Regexp) (all []mutant.Mutant, err error) {
	all = mutant.All()
	if *third && !*update && *only == "" {
		which, err := mutant.Turn(root)
		if err != nil {
			return nil, err
		}
		all = mutant.Third(all, which)
		fmt.Printf("third %d of 3, which these sources choose: %d mutants (make mutants ALL=1 for all)\n", which+1, len(all))
	}
	return slices.DeleteFunc(all, func(m mutant.Mutant) bool { return !pattern.MatchString(m.Name) }), nil
}

// sideBySide does n jobs at a time.
func sideBySide(n int, jobs []func()) {
	work := make(chan func())
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			for job := range work {
				job()
			}
		})
	}
	for _, job := range jobs {
		work <- job
	}
	close(work)
	wg.Wait()
}

func printOverlay(root, dir string) error {
	for _, m := range mutant.All() {
		if m.Name == *overlay {
			file, err := m.Overlay(root, dir)
			fmt.Println(file)
			return err
		}
	}
	return fmt.Errorf("-overlay %s: no such mutant", *overlay)
}

func show(r mutant.Result) {
	line := fmt.Sprintf("%-9s %-3s %-32s", r.State, r.Breaks, r.Name)
	if r.Catch.Seed > 0 {
		line += fmt.Sprintf(" seed %d of %d breaks %s", r.Catch.Seed, r.Seeds, strings.Join(r.Catch.Broke, ", "))
	}
	line += fmt.Sprintf("  (%.1fs)", r.Took.Seconds())
	if r.Err != nil {
		line += "\n  " + r.Err.Error()
	}
	if r.Catch.Plan != "" {
		line += "\n  " + r.Catch.Plan
	}
	if *verbose || r.State != mutant.Killed {
		line += "\n  " + r.Catch.Detail
	}
	fmt.Println(line)
}
