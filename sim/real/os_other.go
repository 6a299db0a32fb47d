//go:build !linux

package real

import (
	"errors"
	"os/exec"
	"time"
)

var processStart = time.Now()

// monotonic replaces CLOCK_MONOTONIC. Stamps of nodes are then out of range, and the run stamps their events when it reads them.
func monotonic() int64 { return int64(time.Since(processStart)) }

func awaitExit(*exec.Cmd) {}

// processTree returns no process: signals reach only the process group.
func processTree(int, string) []treeProcess { return nil }

func clientsOf([]string, []treeProcess) []treeProcess { return nil }

func stranger([]string, func() []treeProcess) (int, bool) { return 0, false }

func runDelay(string) (time.Duration, error) { return 0, errors.ErrUnsupported }

// deaf and hearing do nothing: here a bound socket cannot stop listening, so a shut gate accepts and resets connections.
func deaf(int) error    { return nil }
func hearing(int) error { return nil }

func memory() string { return "" }
