//go:build !linux

package real

import (
	"errors"
	"os/exec"
	"time"
)

var processStart = time.Now()

// monotonic stands in for CLOCK_MONOTONIC. Stamps of nodes are out of range here, and the run replaces them by the time it read them.
func monotonic() int64 { return int64(time.Since(processStart)) }

func awaitExit(*exec.Cmd) {}

// processTree knows no process: signals reach the process group alone.
func processTree(int, string) []treeProcess { return nil }

// clientsOf and stranger know no connections.
func clientsOf([]string, []treeProcess) []treeProcess { return nil }

func stranger([]string, func() []treeProcess) (int, bool) { return 0, false }

func runDelay(string) (time.Duration, error) { return 0, errors.ErrUnsupported }

// deaf and hearing do nothing: a socket of this system listens as long as it is bound, and refusing means resetting connections.
func deaf(int) error    { return nil }
func hearing(int) error { return nil }
