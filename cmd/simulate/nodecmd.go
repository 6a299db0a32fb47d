package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// errNotAllowed means that a file names a program to be started as node, and that nobody at the command line asked for it.
var errNotAllowed = errors.New("not started")

// mayStart returns nil if command may be started as node. What the command line names may be. What a scenario file names needs
// --allow-node-cmd or a yes at the terminal. What a saved run names is never started: whoever made the folder chose it, and the
// flag that allows a file that was read would be given to one that was not.
func (f *flags) mayStart(cmd *cobra.Command, command []string) error {
	if len(command) == 0 || cmd.Flags().Changed("node-cmd") {
		return nil
	}
	shown := quoted(command)
	if f.saved != "" {
		return fmt.Errorf("%w: %s says that its nodes were %s: give --node-cmd to say what to start", errNotAllowed, f.saved, shown)
	}
	if f.allowNodeCmd {
		fmt.Fprintf(cmd.ErrOrStderr(), "the scenario starts as node: %s\n", shown)
		return nil
	}
	if !terminals() {
		return fmt.Errorf("%w: scenario %s names %s as node: give --allow-node-cmd to start it, or --node-cmd", errNotAllowed,
			f.scenario, shown)
	}
	if !yes(cmd.Context(), cmd.InOrStdin(), cmd.ErrOrStderr(), shown) {
		return fmt.Errorf("%w: %s", errNotAllowed, shown)
	}
	return nil
}

// terminals reports whether somebody can be asked.
func terminals() bool {
	return term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stderr.Fd()))
}

// yes asks whether to start a program. No answer is no, and so is a yes after Ctrl-C, which does not end the wait (a second one
// ends the program).
func yes(ctx context.Context, in io.Reader, out io.Writer, shown string) bool {
	fmt.Fprintf(out, "the scenario starts as node: %s\nstart it? (yes/no) ", shown)
	line, _ := bufio.NewReader(io.LimitReader(in, 64)).ReadString('\n') // what there is of it at an end
	said := strings.TrimSpace(line)
	return ctx.Err() == nil && (said == "yes" || said == "y")
}

// quoted shows a command so that nothing in it reaches the terminal as anything but text.
func quoted(command []string) string {
	args := make([]string, len(command))
	for i, a := range command {
		args[i] = a
		if a == "" || strings.ContainsAny(a, " '\"\\") || strconv.Quote(a) != `"`+a+`"` {
			args[i] = strconv.Quote(a)
		}
	}
	return strings.Join(args, " ")
}
