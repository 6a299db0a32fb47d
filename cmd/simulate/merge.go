package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/leasestorm/leasestorm/internal/plain"
	"github.com/leasestorm/leasestorm/sim/explore"
)

func newMerge() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "merge FILE…",
		Short: "Add up the shards of an exploration, and show that no seed is missing",
		Long: `Add up the files of an exploration in shards (explore-….jsonl). merge checks that the files are complete, come from one
program with the same flags, and have no seed twice. It prints how often each guarantee was exercised, which seeds are missing,
and each cause of failures once.

The hash covers all seeds and their histories, and does not depend on the number of shards.

Exit codes: 0 all shards are there and hold; 1 a guarantee failed; 2 seeds are missing, or no seed exercised a criterion; 3 a file
cannot be read or does not belong to the others.`,
		Example: "  simulate merge reports/explore-1-200000-shard-*.jsonl",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fmt.Errorf("merge: name the files of the shards, such as reports/explore-1-200000-shard-*.jsonl")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return merge(cmd.OutOrStdout(), args, asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write the result as JSON")
	return cmd
}

func merge(out io.Writer, files []string, asJSON bool) error {
	m, err := explore.Merge(files)
	if err != nil {
		return err
	}
	if asJSON {
		err = writeJSON(out, m)
	} else {
		var text bytes.Buffer
		printMerged(&text, &m)
		_, err = text.WriteTo(out)
	}
	if err != nil {
		return fmt.Errorf("write the result of the shards: %w", err)
	}
	return exit(m.Verdict)
}

func printMerged(out io.Writer, m *explore.Merged) {
	printGuarantees(out, &m.Coverage)
	failed := uint64(0)
	for i := range m.Causes {
		c := m.Causes[i]
		failed += c.Count
		if i == failedMax {
			fmt.Fprintf(out, "\n… and %d more causes (--json names them)\n", len(m.Causes)-i)
		}
		if i >= failedMax {
			continue
		}
		fmt.Fprintf(out, "\n%s by %d: %s\n  seeds:           %s\n  run it again:    simulate replay %d@%d (with the flags of the exploration)\n"+
			"  make it small:   simulate shrink %[5]d@%[6]d (with them too)\n", plain.Text(strings.Join(c.Broke, ", ")), c.Count,
			plain.Text(c.First.Detail), numbers(c.Seeds, c.Count), c.First.Seed, m.Draw)
	}
	fmt.Fprintf(out, "\n%d of %d seeds in %d files, %d failed by %d causes, %d compared with a second run, %d with the Lua scripts; "+
		"%v of virtual time\n", m.Done, m.Total, m.Files, failed, len(m.Causes), m.Repeated, m.Interpreted,
		(time.Duration(m.VirtualMs) * time.Millisecond).Round(time.Second))
	for i, p := range m.Missing {
		if i == failedMax {
			fmt.Fprintf(out, "… and %d more differences (--json names them)\n", len(m.Missing)-i)
			break
		}
		fmt.Fprintf(out, "missing: %d seeds of %d-%d", p.Count, p.Seeds.From, p.Seeds.To)
		switch {
		case p.File != "":
			fmt.Fprintf(out, ": shard %d/%d is not complete, --resume goes on with it (%s)", p.Shards.From, p.Of, plain.Text(p.File))
		case p.Shards.From != p.Shards.To:
			fmt.Fprintf(out, ": shards %d to %d of %d", p.Shards.From, p.Shards.To, p.Of)
		case p.Of > 1:
			fmt.Fprintf(out, ": shard %d/%d", p.Shards.From, p.Of)
		}
		fmt.Fprintln(out)
	}
	if missing := m.Coverage.Missing(); len(missing) > 0 {
		fmt.Fprintf(out, "no seed exercised %s: more seeds might\n", strings.Join(missing, ", "))
	}
	fmt.Fprintf(out, "hash: %x\nverdict: %s (* decides)\n", m.Hash, strings.ToUpper(string(m.Verdict)))
}

func numbers(seeds []uint64, of uint64) string {
	text := strings.Trim(fmt.Sprint(seeds), "[]")
	if uint64(len(seeds)) < of {
		text += fmt.Sprintf(" … (%d)", of)
	}
	return text
}
