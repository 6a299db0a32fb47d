package main

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/leasestorm/leasestorm/internal/suggest"
)

// flagGroups are the headings under which the help lists flags, each with the last flag of its group in the order of registration.
var flagGroups = []struct{ title, last string }{
	{"The storm", "allow-node-cmd"},
	{"Where it runs", storeFlag},
	{"What comes out", "min-exercised"},
	{"Many storms, in virtual time", "resume"},
}

func groupFlags(cmd *cobra.Command) {
	cobra.AddTemplateFunc("groupedFlags", groupedFlags)
	const flat, grouped = "Flags:\n{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}", "{{groupedFlags .LocalFlags}}"
	cmd.SetUsageTemplate(strings.Replace(cmd.UsageTemplate(), flat, grouped, 1))
}

func groupedFlags(all *pflag.FlagSet) string {
	var b strings.Builder
	group, next := &pflag.FlagSet{}, 0
	end := func(title string) {
		if group.HasAvailableFlags() {
			b.WriteString(title + ":\n" + group.FlagUsages() + "\n")
		}
		group = &pflag.FlagSet{}
	}
	all.VisitAll(func(f *pflag.Flag) {
		group.AddFlag(f)
		if next < len(flagGroups) && f.Name == flagGroups[next].last {
			end(flagGroups[next].title)
			next++
		}
	})
	rest := "Flags"
	if b.Len() > 0 {
		rest = "Other flags"
	}
	end(rest)
	return strings.TrimRight(b.String(), "\n")
}

// flagError turns pflag's errors into one line with the allowed values.
func flagError(cmd *cobra.Command, err error) error {
	var value *pflag.InvalidValueError
	var unknown *pflag.NotExistError
	switch {
	case errors.As(err, &value):
		return fmt.Errorf("--%s %q: give %s", value.GetFlag().Name, value.GetValue(), wanted(value.GetFlag()))
	case errors.As(err, &unknown):
		return fmt.Errorf("%w: %s%s --help lists the flags", err, suggest.Flag(cmd, err), cmd.CommandPath())
	}
	return err
}

func wanted(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "int":
		return "a whole number, such as 10"
	case "uint64":
		return fmt.Sprintf("a whole number from 1 to %d, such as 10", uint64(math.MaxUint64))
	case "float64":
		return "a number above zero, such as 10 or 0.5"
	case "duration":
		return "a duration with its unit, such as 30s or 500ms, of a day at most"
	case "bool":
		return "true or false"
	}
	return "a " + f.Value.Type()
}

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	meant := suggest.Command(cmd.Root(), args[0])
	if meant == "" {
		var known []string
		for _, c := range cmd.Root().Commands() {
			if c.IsAvailableCommand() {
				known = append(known, c.Name())
			}
		}
		meant = "commands are " + strings.Join(known, ", ") + "; "
	}
	return fmt.Errorf("unknown command or argument %q: %s%s --help lists the flags", args[0], meant, cmd.CommandPath())
}

// oneArg accepts one argument, which needs describes.
func oneArg(needs string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 && args[0] != "" {
			return nil
		}
		return fmt.Errorf("%s needs %s", cmd.CommandPath(), needs)
	}
}

var (
	oneDir    = oneArg("the folder of one saved run, such as reports/storm-42")
	dirOrSeed = oneArg("one saved run's folder, such as reports/storm-42, or one seed, such as 42")
)
