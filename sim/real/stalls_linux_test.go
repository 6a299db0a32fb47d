package real

import (
	"errors"
	"runtime"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/leasestorm/leasestorm/sim/real/host"
)

// A server that shares its core with a busy thread has waited for it. So has a restarted one.
func TestAServerWaitsForItsCore(t *testing.T) {
	r := provision(t)
	waited := waits(r, 0)
	for _, life := range []string{"first", "second"} {
		if waited(); waited() < 0 {
			t.Errorf("%s life: time runs back", life)
		}
		stop := shareCore(t, processID(r.client.Load()))
		if err := r.client.Load().Eval(t.Context(), slowScript, nil, 100).Err(); err != nil {
			t.Error(err)
		}
		stop()
		if waited() == 0 {
			t.Errorf("%s life: it waited for nothing", life)
		}
		r.halt(t.Context())
		if err := r.resume(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// shareCore makes a process share the core of a busy thread, until stop.
func shareCore(t *testing.T, process string) (stop func()) {
	t.Helper()
	pid, err := strconv.Atoi(process)
	if err != nil {
		t.Fatal(err)
	}
	var may, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &may); err != nil {
		t.Skip(err)
	}
	for cpu := 0; one.Count() == 0; cpu++ {
		if may.IsSet(cpu) {
			one.Set(cpu)
		}
	}
	end, busy, ended := make(chan struct{}), make(chan error), make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		busy <- unix.SchedSetaffinity(0, &one)
		for !host.Closed(end) {
		}
	}()
	if err := errors.Join(<-busy, unix.SchedSetaffinity(pid, &one)); err != nil {
		t.Skip(err)
	}
	return func() { close(end); <-ended }
}
