package main

import (
	"fmt"
	"os"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"

	"github.com/leasestorm/leasestorm/internal/plain"
	"github.com/leasestorm/leasestorm/sim"
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
)

// flagOf returns the flag that names a node, and its words.
func flagOf(command []string) (flag string, words []string) {
	if adapter, ok := sim.LeaseAdapter(command); ok {
		return leaseCmdFlag, adapter
	}
	return nodeCmdFlag, command
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
