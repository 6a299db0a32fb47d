package node

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/pflag"
)

var errHelp = errors.New("help")

// variables reads settings from the environment and flags. Its errors name the variable or the flag.
type variables struct {
	*pflag.FlagSet
	getenv  func(string) string
	problem error
	within  []func() error // checks of the durations' bounds, at the end of read
}

func newVariables(name string, getenv func(string) string) *variables {
	v := &variables{FlagSet: pflag.NewFlagSet(name, pflag.ContinueOnError), getenv: getenv}
	v.SortFlags = false
	v.SetOutput(io.Discard)
	return v
}

func (v *variables) text(p *string, flag, variable, def, help string) {
	v.StringVar(p, flag, cmp.Or(v.getenv(variable), def), help+" ("+variable+")")
}

// duration reads a duration of at most a day. 0 is allowed only as a default.
func (v *variables) duration(p *time.Duration, flag, variable string, def time.Duration, help string) {
	least := min(def, time.Millisecond)
	v.within = append(v.within, func() error {
		if *p >= least && *p <= 24*time.Hour {
			return nil
		}
		return fmt.Errorf("%s (--%s) is %v; it must be %v to 24h", variable, flag, *p, least)
	})
	if text := v.getenv(variable); text != "" {
		ms, err := strconv.ParseInt(text, 10, 64)
		if err != nil || ms <= 0 || ms > int64(24*time.Hour/time.Millisecond) {
			v.problem = errors.Join(v.problem, fmt.Errorf("%s is %q; it must be milliseconds, 1 to 86400000", variable, text))
		}
		def = time.Duration(ms) * time.Millisecond
	}
	v.DurationVar(p, flag, def, help+" ("+variable+")")
}

// read parses the flags or prints the help. arguments describes the allowed arguments, for the error.
func (v *variables) read(args []string, help *bool, usage string, out io.Writer, arguments string) error {
	if err := v.Parse(args); err != nil {
		return fmt.Errorf("%w; see %s --help", err, v.Name())
	}
	if *help {
		return printHelp(out, usage, v.FlagUsages())
	}
	if rest := v.Args(); len(rest) > 0 {
		return fmt.Errorf("unexpected argument %q; %s", rest[0], arguments)
	}
	for _, within := range v.within {
		if v.problem == nil {
			v.problem = within()
		}
	}
	return v.problem
}

func (v *variables) number(p *int, flag, variable string, def int, help string) {
	if text := v.getenv(variable); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			v.problem = errors.Join(v.problem, fmt.Errorf("%s is %q; it must be a whole number from 0", variable, text))
		}
		def = n
	}
	v.IntVar(p, flag, def, help+" ("+variable+")")
}

func printHelp(out io.Writer, usage, flags string) error {
	if _, err := fmt.Fprintf(out, "%s\n%s", usage, flags); err != nil {
		return fmt.Errorf("write the help: %w", err)
	}
	return errHelp
}
