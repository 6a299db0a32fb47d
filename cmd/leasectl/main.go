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
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/leasestorm/leasestorm/internal/plain"
	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/internal/redisurl"
)

const (
	exitFine     = 0
	exitFindings = 1 // something is wrong, or the keys in Redis do not allow the request
	exitRedis    = 2 // Redis cannot be reached, or refuses
	exitWrong    = 3 // bad input: nothing was done
)

// errFindings means that the findings have been printed.
var errFindings = errors.New("findings")

var errUsage = errors.New("bad input")

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

// byHolding are the errors that the keys in Redis cause.
var byHolding = []error{errFindings, redisstore.ErrInUse, redisstore.ErrOutlives, redisstore.ErrFormat}

// byInput are the errors that the command line causes.
var byInput = []error{errUsage, redisstore.ErrInvalidOptions, errNotCurrent, redisurl.ErrPasswordFile}

func codeOf(err error) int {
	is := func(all []error) bool {
		for _, e := range all {
			if errors.Is(err, e) {
				return true
			}
		}
		return false
	}
	switch {
	case err == nil:
		return exitFine
	case is(byInput):
		return exitWrong
	case is(byHolding):
		return exitFindings
	default:
		return exitRedis
	}
}

// oneLine keeps an error on one line, and hides the password of a quoted URL.
func oneLine(err error) string {
	if errors.Is(err, redisstore.ErrAuth) { // its own text, without the example of a URL, says too little
		words := err.Error()
		if i := strings.LastIndex(words, ": "); i >= 0 {
			words = words[i+2:]
		}
		return plain.Text("not authenticated at Redis (give user in --redis, password in --redis-password-file): " + words)
	}
	return plain.Text(redisurl.Line(err))
}
