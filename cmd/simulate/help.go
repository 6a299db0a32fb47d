package main

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagGroups are the headings under which the help lists flags, each with the last flag of its group in the order of registration.
var flagGroups = []struct{ title, last string }{
	{"The storm", "allow-node-cmd"},
	{"Where it runs", "proxy"},
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
