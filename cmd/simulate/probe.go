package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/leasestorm/leasestorm/internal/plain"
	"github.com/leasestorm/leasestorm/internal/redisurl"
	"github.com/leasestorm/leasestorm/sim"
	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/criteria"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/probe"
	"github.com/leasestorm/leasestorm/sim/real"
)

// A probe lasts for several renewals of each lease. It does not end with a renewal, so that releases differ from renewals.
const (
	probeNodes, probeSessions = 2, 6
	probeFor                  = 10*time.Second + 500*time.Millisecond
)

func newProbe() *cobra.Command {
	var f prober
	cmd := &cobra.Command{
		Use:   "probe",
		Short: "Show which rules of the node protocol a node follows",
		Long: `Start two nodes on six sessions for ten seconds, inject no fault, and stop the nodes. Then report for each rule of
docs/node-protocol.md whether the nodes follow it, break it, or do not use it, and what cannot be judged without it. To learn
whether a node is safe, run --scenario safety, or --scenario locks if it has no fences.

Exit codes: 0 no rule is broken, and the criteria have all that they need; 1 a rule is broken; 2 something is missing, so that a
criterion would be unknown or less exact; 3 the command line or the harness was wrong.`,
		Example: `  simulate probe --node-cmd 'LEVEL=debug python3 node.py'
  simulate probe --node-cmd ./node --criteria G1,G2   for a node without fences
  simulate probe --lease-cmd 'python3 lock.py'        an adapter of docs/lease-protocol.md`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.probe(cmd) },
	}
	f.environment.register(cmd.Flags())
	f.output.register(cmd.Flags())
	cmd.Flags().StringVar(&f.criteria, "criteria", strings.Join(probe.Criteria(), ","), "guarantees that a storm must be able to judge")
	cmd.SetFlagErrorFunc(flagError)
	return cmd
}

// prober has the flags of probe.
type prober struct {
	environment
	output
	criteria string
}

func (f *prober) probe(cmd *cobra.Command) error {
	criteria, err := criteria.Parse(f.criteria)
	if err != nil {
		err = fmt.Errorf("--criteria: %w", err)
	}
	if err := errors.Join(f.output.check(cmd.Flags()), f.environment.check(cmd.Flags()), err); err != nil {
		return err
	}
	s := sim.Scenario{
		Name: "probe", Engine: f.engine, Nodes: probeNodes, Sessions: probeSessions, Seed: 1,
		Fixed: sim.Fixed{Duration: probeFor}, Plan: []fault.Fault{},
	}
	if s.NodeCmd, err = f.nodeOf(cmd.Flags(), nil); err != nil {
		return err
	}
	c, err := s.Resolve()
	if err != nil {
		return err
	}
	found, err := f.probed(cmd, c)
	if err != nil {
		return err
	}
	found.Verdict = probe.Decide(found.Rules, criteria)
	if err := found.print(cmd.OutOrStdout(), f.json); err != nil {
		return err
	}
	return exit(found.Verdict)
}

type probing struct {
	Verdict check.Outcome `json:"verdict"`
	Rules   []probe.Rule  `json:"rules"`
	Folder  string        `json:"folder"`
}

// probed runs the nodes and inspects their history. If the nodes fail to start, that is a finding too.
func (f *prober) probed(cmd *cobra.Command, c sim.Config) (probing, error) {
	if err := f.startable(c.NodeCmd); err != nil {
		return probing{}, err
	}
	engine, err := f.newEngine(c, nil)
	if err != nil {
		return probing{}, err
	}
	if !f.quiet {
		fmt.Fprintf(cmd.ErrOrStderr(), "probing for %v\n", probeFor.Truncate(time.Second))
	}
	r, err := sim.Run(cmd.Context(), c, sim.Options{Engine: engine, Reports: f.report})
	found := probing{Folder: r.Dir}
	switch {
	case errors.Is(err, real.ErrNodeExited), errors.Is(err, real.ErrNodeNotReady):
		found.Rules = []probe.Rule{{Name: "ready", Verdict: check.Fail, Says: redisurl.Line(err)}}
		return found, nil
	case err != nil:
		return probing{}, err
	case r.Outcome.Interrupted:
		return probing{}, errors.New("interrupted: a probe takes ten seconds")
	}
	found.Rules, err = probe.Inspect(r.Report.Params(), history.Open(r.Dir), r.Report.Guarantees)
	return found, err
}

func (p *probing) print(out io.Writer, asJSON bool) error {
	if asJSON {
		return writeJSON(out, p)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, r := range p.Rules {
		says := r.Says
		if len(r.Open) > 0 {
			says += " (leaves open: " + strings.Join(r.Open, ", ") + ")"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", strings.ToUpper(string(r.Verdict)), r.Name, plain.Text(says))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\nverdict: %s\n  files:           %s\n", strings.ToUpper(string(p.Verdict)), p.Folder)
	return err
}
