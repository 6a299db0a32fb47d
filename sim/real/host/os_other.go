//go:build !linux

package host

import (
	"errors"
	"time"
)

var processStart = time.Now()

// Monotonic replaces CLOCK_MONOTONIC. Stamps of nodes are then out of range, and the run stamps their events when it reads them.
func Monotonic() int64 { return int64(time.Since(processStart)) }

// RunDelay is not known here.
func RunDelay(string) (time.Duration, error) { return 0, errors.ErrUnsupported }

// Memory returns "": no folder is in memory here.
func Memory() string { return "" }
