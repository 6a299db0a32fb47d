package main

import (
	"fmt"

	"github.com/leasestorm/leasestorm/sim/check"
)

const (
	exitPass    = 0
	exitFail    = 1
	exitUnknown = 2
	exitWrong   = 3
)

// verdictError carries the exit code of a verdict that has been printed.
type verdictError int

func (e verdictError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

func exit(verdict check.Outcome) error {
	switch verdict {
	case check.Pass:
		return nil
	case check.Fail:
		return verdictError(exitFail)
	}
	return verdictError(exitUnknown)
}
