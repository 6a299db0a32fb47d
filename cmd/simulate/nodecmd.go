package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"

	"github.com/leasestorm/leasestorm/internal/plain"
	"github.com/leasestorm/leasestorm/internal/redisurl"
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
)

// nodeOf returns the node of --node-cmd or --lease-cmd, or else the one given.
func (f *flags) nodeOf(fs *pflag.FlagSet, otherwise []string) ([]string, error) {
	switch node, lease := fs.Changed(nodeCmdFlag), fs.Changed(leaseCmdFlag); {
	case node && lease:
		return nil, errors.New("--lease-cmd with --node-cmd: each names the nodes: leave one of them out")
	case node:
		return splitCommand(nodeCmdFlag, f.nodeCmd)
	case lease:
		words, err := splitCommand(leaseCmdFlag, f.leaseCmd)
		return sim.LeaseNode(words), err
	}
	return otherwise, nil
}

// flagOf returns the flag that names a node, and its words.
func flagOf(command []string) (flag string, words []string) {
	if adapter, ok := sim.LeaseAdapter(command); ok {
		return leaseCmdFlag, adapter
	}
	return nodeCmdFlag, command
}

// bugVariable selects a deliberate bug of nodes such as scenarios/testdata/foreign_node.py.
const bugVariable = "BUG"

// withBug adds bugVariable from simulate's own environment to the node's command. The run must save it: a replay without it would pass.
func (f *flags) withBug(command []string) []string {
	value, set := os.LookupEnv(bugVariable)
	env, argv := sim.NodeCommand(command)
	named := slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, bugVariable+"=") })
	if !set || named || len(argv) == 0 || f.launcher == launchContainers { // a container gets only the variables of the command
		return command
	}
	return append([]string{bugVariable + "=" + value}, command...)
}

// forgets prints the variables of the saved run's nodes that the nodes of its replay lack or have with other values.
func (f *flags) forgets(out io.Writer, c sim.Config) {
	if f.saved == "" || c.Engine != sim.EngineReal {
		return
	}
	was, err := report.Load(f.saved)
	if err != nil { // already loaded, or nothing to compare with
		return
	}
	had, _ := sim.NodeCommand(was.NodeCmd)
	has, _ := sim.NodeCommand(c.NodeCmd)
	for _, v := range had {
		if !slices.Contains(has, v) {
			fmt.Fprintf(out, "note: the nodes of %s had %s, but these nodes do not: the outcome may differ\n", plain.Text(f.saved), plain.Word(v))
		}
	}
}

// replayFlags returns the flags that repeat this run, each after a blank: values missing from its folder or different from this machine's
// defaults. None contains a password.
func (f *flags) replayFlags(r sim.Result) string {
	var b strings.Builder
	add := func(name, value string) {
		if value != "" {
			b.WriteString(" --" + name + " " + plain.Word(value))
		}
	}
	switch {
	case r.Config.Engine == sim.EngineVirtual:
		b.WriteString(f.luaFlag())
	case f.compose != "":
		add("compose", f.compose)
	case strings.Contains(f.redis, "://"):
		add("redis", redisurl.Show(f.redis))
		add("redis-password-file", f.passwordFile)
	default:
		add("redis", cmp.Or(f.redis, r.Report.Redis.Chosen()))
		if r.Report.Redis.Kind == "container" && f.redisImage != sim.RedisImage {
			add("redis-image", f.redisImage)
		}
	}
	if f.launcher == launchContainers {
		add("launcher", f.launcher)
		add("node-image", f.nodeImage)
	}
	for _, p := range f.proxies {
		add("proxy", p)
	}
	return b.String() + nodeFlag(r.Config.NodeCmd)
}

func (f *flags) luaFlag() string {
	if f.lua {
		return " --lua"
	}
	return ""
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

func exists(command []string) error {
	argv := sim.StartedBy(command)
	if len(argv) == 0 {
		return nil // Resolve reports it
	}
	if _, err := exec.LookPath(argv[0]); err != nil {
		flag, words := flagOf(command)
		return fmt.Errorf("the node %s cannot be started: %w: nothing was started (flag --%s)", quoted(words), err, flag)
	}
	return nil
}

// errNotAllowed reports a node program that only a file names, not the command line.
var errNotAllowed = errors.New("not started")

// mayStart returns nil if the command is allowed as node and can be started. In a container, the image must have the program.
func (f *flags) mayStart(cmd *cobra.Command, command []string) error {
	if len(command) == 0 {
		return nil
	}
	if _, isLease := sim.LeaseAdapter(command); isLease && f.launcher == launchContainers {
		return errors.New("--lease-cmd with --launcher container: adapters run as processes of this machine: leave one of them out")
	}
	if err := f.allowed(cmd, command); err != nil || f.launcher == launchContainers {
		return err
	}
	return exists(command)
}

// allowed accepts a node command from the command line, and one from a scenario file with --allow-node-cmd. It never accepts one from a
// saved run, because the author of the folder chose it.
func (f *flags) allowed(cmd *cobra.Command, command []string) error {
	flag, words := flagOf(command)
	switch {
	case cmd.Flags().Changed(nodeCmdFlag) || cmd.Flags().Changed(leaseCmdFlag):
		return nil
	case f.saved != "":
		return fmt.Errorf("%w: %s says that its nodes were %s: give --%s to say what to start", errNotAllowed, f.saved, quoted(words), flag)
	case !f.allowNodeCmd:
		return fmt.Errorf("%w: scenario %s names %s as node: give --allow-node-cmd to start it, or --%s", errNotAllowed, f.scenario,
			quoted(words), flag)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "the scenario names this node program: %s\n", quoted(words))
	return nil
}
