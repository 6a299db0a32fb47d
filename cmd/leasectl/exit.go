package main

import (
	"errors"
	"slices"
	"strings"

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

// byHolding are the errors that the keys in Redis cause.
var byHolding = []error{errFindings, redisstore.ErrInUse, redisstore.ErrOutlives, redisstore.ErrFormat}

// byInput are the errors that the command line causes.
var byInput = []error{errUsage, redisstore.ErrInvalidOptions, errNotCurrent, redisurl.ErrPasswordFile}

func codeOf(err error) int {
	is := func(target error) bool { return errors.Is(err, target) }
	switch {
	case err == nil:
		return exitFine
	case slices.ContainsFunc(byInput, is):
		return exitWrong
	case slices.ContainsFunc(byHolding, is):
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

// errNotCurrent means that --fence names another term than the current one. Nothing was done.
var errNotCurrent = errors.New("not the current term of the lease")
