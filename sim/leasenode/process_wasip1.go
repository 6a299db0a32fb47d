package leasenode

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// Without child processes, node and adapter are one program. The adapter is its function main, with pipes for standard input and output.
var (
	requests        *os.File
	answers         *os.File
	errAdapterEnded = errors.New("the node stops")
)

//go:wasmimport leasestorm pipe
func pipe(r, w *int32) (errno uint32)

func newPipe() (r, w *os.File) {
	var in, out int32
	if errno := pipe(&in, &out); errno != 0 {
		fmt.Fprintln(os.Stderr, "pipe to the adapter:", syscall.Errno(errno))
		os.Exit(exitWrong)
	}
	return os.NewFile(uintptr(in), "|0"), os.NewFile(uintptr(out), "|1")
}

// The node starts before the adapter's variables have their first values.
func init() {
	os.Stdin, requests = newPipe()
	answers, os.Stdout = newPipe()
	_ = os.Setenv("LEASESTORM_INSTANCE", instance())
	go func() { os.Exit(Main(strings.Fields(os.Getenv("LEASESTORM_LEASE_OPTIONS")))) }()
}

func startAdapter(_ []string, lost func(key string), wrong func(text string)) (*adapter, error) {
	a := &adapter{name: os.Args[0], in: requests, lost: lost, wrong: wrong, ended: make(chan struct{})}
	go a.read(answers)
	return a, nil
}

// stop stops listening to the adapter, which ends with the node.
func (a *adapter) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.err = errAdapterEnded
	close(a.ended)
}

func (a *adapter) freeze() {}

func onPause(func()) (stop func()) { return func() {} } // there is no such signal
