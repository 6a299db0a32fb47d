// Command hunt changes a sample of the library's statements, one at a time, and plays storms in virtual time with each change. It prints
// the share that the storms detect, and lists the survivors. Run it with "make hunt" in the root of the module. A survivor may be
// equivalent, irrelevant, or a gap in the judge. The list is for a reader and fails nothing.
package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

var (
	sample   = flag.Int("sample", 100, "changes to hunt")
	seed     = flag.String("seed", "", "what the sample is drawn from; empty: the commit")
	only     = flag.String("only", "", "only files whose path has this in it")
	parallel = flag.Int("parallel", 2, "changes at a time")
	most     = flag.Duration("for", 10*time.Minute, "begin no change after this long")
	playing  = flag.Bool("play", false, "play the storms with this very binary, and say what broke")
	script   = flag.String("script", "", "with -play: a script, in the place of which the text on standard input is run")
)

func main() {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	run := hunt
	if *playing {
		run = func(ctx context.Context) error { return play(ctx, *script) }
	}
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "hunt:", err)
		os.Exit(1)
	}
}

// unbuilt is the result of a change that does not compile.
const unbuilt = ""

func hunt(ctx context.Context) error {
	all, err := changes(".", *only)
	if err != nil {
		return err
	}
	r, err := drawn()
	if err != nil {
		return err
	}
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	dir, err := os.MkdirTemp("", "hunt-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	begin := time.Now()
	if got, err := try(ctx, dir, change{}); err != nil || got != survived {
		return fmt.Errorf("with nothing changed: %s (%w)", got, errors.Join(err, ctx.Err()))
	}
	lived, caught, err := sideBySide(ctx, dir, all)
	if err != nil {
		return err
	}
	for _, c := range lived {
		fmt.Printf("survived  %s\n", c)
	}
	fmt.Printf("%d of %d changes caught (%d %%), of %d that could be drawn, in %v\n", caught, caught+len(lived),
		100*caught/max(1, caught+len(lived)), len(all), time.Since(begin).Round(time.Second))
	return ctx.Err()
}

func drawn() (*rand.Rand, error) {
	from := *seed
	if from == "" {
		commit, err := exec.Command("git", "rev-parse", "HEAD").Output()
		if err != nil {
			return nil, fmt.Errorf("the commit is not known, give -seed: %w", err)
		}
		from = strings.TrimSpace(string(commit))
	}
	fmt.Printf("hunt: -sample %d -seed %s\n", *sample, from)
	return rand.New(rand.NewChaCha8(sha256.Sum256([]byte(from)))), nil
}

// sideBySide tries changes in order until the sample is complete.
func sideBySide(ctx context.Context, dir string, all []change) (lived []change, caught int, err error) {
	var mu sync.Mutex
	var work sync.WaitGroup
	begin, slots := time.Now(), make(chan struct{}, *parallel)
	over := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return caught+len(lived) >= *sample || err != nil || ctx.Err() != nil || time.Since(begin) > *most
	}
	for _, c := range all {
		slots <- struct{}{}
		if over() {
			break
		}
		work.Go(func() {
			got, failed := try(ctx, dir, c)
			mu.Lock()
			switch {
			case failed != nil:
				err = errors.Join(err, failed)
			case got == survived:
				lived = append(lived, c)
			case got != unbuilt:
				caught++
				fmt.Printf("%-9s %s\n", got, c)
			}
			mu.Unlock()
			<-slots
		})
	}
	work.Wait()
	return lived, caught, err
}

// patience bounds the storms of one change. A change that takes longer hangs and counts as caught.
const patience = 3 * time.Minute

// try plays the storms with a change, and returns the first broken guarantee, survived, or unbuilt.
func try(ctx context.Context, dir string, c change) (string, error) {
	text, err := c.changed()
	if err != nil {
		return "", err
	}
	program, args := os.Args[0], []string{"-play"}
	switch filepath.Ext(c.File) {
	case ".lua":
		args = append(args, "-script", c.File)
	case ".go":
		dir, err = os.MkdirTemp(dir, "")
		if err != nil {
			return "", err
		}
		defer func() { _ = os.RemoveAll(dir) }()
		program = filepath.Join(dir, "hunt")
		overlay, err := c.overlay(dir, text)
		if err != nil {
			return "", err
		}
		build := exec.CommandContext(ctx, "go", "build", "-ldflags=-s -w", "-overlay", overlay, "-o", program, "./sim/mutant/hunt")
		if build.Run() != nil {
			return unbuilt, nil
		}
	}
	timed, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(timed, program, args...)
	cmd.Stdin = strings.NewReader(text)
	said, err := cmd.Output()
	switch {
	case timed.Err() != nil:
		return "hang", nil
	case err != nil:
		return "crash", nil
	}
	return strings.TrimSpace(string(said)), nil
}
