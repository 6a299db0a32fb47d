// Command leasectl shows an operator who owns which lease, checks a Redis for faults and their remedies, and asks owners to release
// leases. See leasectl --help and docs/leasectl.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/leasestorm/leasestorm/internal/plain"
)

func main() {
	redis.SetLogger(&logging.VoidLogger{}) // the calls return its errors
	signal.Ignore(syscall.SIGPIPE)         // a closed pipe ends the output, not the command in progress
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once
	os.Exit(execute(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	out := &plain.Writer{To: stdout}
	cmd := newRoot(os.Getenv)
	cmd.SetArgs(args)
	cmd.SetOut(out)
	cmd.SetErr(&plain.Writer{To: stderr})
	err := cmd.ExecuteContext(ctx)
	switch {
	case errors.Is(out.Err, syscall.EPIPE) && (err == nil || errors.Is(err, syscall.EPIPE)):
		return exitFine // the reader has enough
	case err == nil:
		err = out.Err
	}
	if err != nil && !errors.Is(err, errFindings) {
		fmt.Fprintln(cmd.ErrOrStderr(), "leasectl:", oneLine(err))
	}
	return codeOf(err)
}
