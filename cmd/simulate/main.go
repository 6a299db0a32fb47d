// Command simulate runs N nodes that share M polling sessions through Redis, injects faults, and judges guarantee by guarantee whether
// exactly one node polled each session.
//
//	simulate --nodes 10 --sessions 100     # about a minute, a plan of faults drawn from a new seed
//	simulate replay reports/storm-42       # the same storm again
//	simulate check reports/storm-42        # the verdict of a saved run again
//
// Exit codes: 0 all criteria pass; 1 a guarantee failed; 2 a criterion stayed unknown; 3 the command line or the harness was wrong and
// nothing was judged. A crash ends simulate by a signal.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/leasestorm/leasestorm/internal/plain"
	"github.com/leasestorm/leasestorm/internal/redisurl"
)

func main() {
	if code, ok := hiddenMode(os.Args); ok {
		os.Exit(code)
	}
	debug.SetTraceback("crash") // a panic ends the program by a signal, because Go's exit code 2 means an unknown verdict
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores SIGHUP
		ends = append(ends, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), ends...)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once; the reaper cleans up behind it
	os.Exit(execute(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	out := &plain.Writer{To: colored(stdout)}
	stderr = &plain.Writer{To: stderr}
	cmd := newRoot()
	cmd.SetArgs(args)
	cmd.SetOut(out)
	cmd.SetErr(stderr)
	err := cmd.ExecuteContext(ctx)
	if err == nil { // cobra does not report errors of printing the help
		err = out.Err
	}
	var verdict verdictError
	switch {
	case err == nil:
		return exitPass
	case errors.As(err, &verdict):
		return int(verdict)
	}
	fmt.Fprintf(stderr, "simulate: %v\n", redisurl.Line(err)) // plain.Writer escapes it
	return exitWrong
}
