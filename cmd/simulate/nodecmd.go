package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"

	"github.com/leasestorm/leasestorm/internal/plain"
	"github.com/leasestorm/leasestorm/sim"
	"github.com/leasestorm/leasestorm/sim/report"
)

// splitCommand splits a command line into words like a POSIX shell, with quotes and $NAME from the environment. It refuses anything that
// needs a shell, such as pipes.
func splitCommand(flag, line string) ([]string, error) {
	var words []*syntax.Word
	var err error
	for w, werr := range syntax.NewParser(syntax.Variant(syntax.LangPOSIX)).WordsSeq(strings.NewReader(line)) {
		if err = werr; err != nil {
			break
		}
		words = append(words, w)
	}
	var fields []string
	if err == nil {
		fields, err = expand.Fields(&expand.Config{Env: expand.ListEnviron(os.Environ()...)}, words...)
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("--%s %q: %w: give a program and its arguments, behind any NAME=value, or sh -c '…' for what needs a shell",
			flag, line, err)
	case len(fields) == 0:
		return nil, fmt.Errorf("--%s is empty: give a program, or leave it out for the reference node", flag)
	}
	return fields, nil
}

const (
	nodeCmdFlag  = "node-cmd"
	leaseCmdFlag = "lease-cmd"
	nodeGoFlag   = "node-go"
	leaseGoFlag  = "lease-go"
)

// nodeFlags are the flags that name the nodes. One of them is possible.
var nodeFlags = []string{nodeCmdFlag, leaseCmdFlag, nodeGoFlag, leaseGoFlag}

// flagOf returns the flag that names a node, and its words.
func flagOf(command []string) (flag string, words []string) {
	kind, words := sim.KindOf(command)
	return strings.TrimPrefix(report.NodeFlags[kind], "--"), words
}

// nodeOf returns the nodes that a flag names, or else those given.
func (f *environment) nodeOf(fs *pflag.FlagSet, otherwise []string) ([]string, error) {
	nodes, named := otherwise, ""
	lines := map[string]string{"": f.nodeCmd, report.LeaseNode: f.leaseCmd, report.GoNode: f.nodeGo, report.GoLease: f.leaseGo}
	for kind, line := range lines {
		flag := strings.TrimPrefix(report.NodeFlags[kind], "--")
		if !fs.Changed(flag) {
			continue
		}
		if named != "" {
			return nil, fmt.Errorf("--%s with --%s: each names the nodes: leave one of them out", min(named, flag), max(named, flag))
		}
		named = flag
		words, err := splitCommand(flag, line)
		if err != nil {
			return nil, err
		}
		if nodes = words; kind != "" {
			nodes = sim.NodesOf(kind, words)
		}
	}
	return nodes, nil
}

// nodeFlag returns the flag that starts the same nodes, after a blank; "" for the reference node.
func nodeFlag(command []string) string {
	if len(command) == 0 {
		return ""
	}
	flag, words := flagOf(command)
	return " --" + flag + " " + plain.Word(quoted(words))
}

func quoted(command []string) string {
	words := make([]string, len(command))
	for i, w := range command {
		if name, value, ok := strings.Cut(w, "="); ok && syntax.ValidName(name) {
			words[i] = name + "=" + plain.Word(value)
		} else {
			words[i] = plain.Word(w)
		}
	}
	return strings.Join(words, " ")
}
