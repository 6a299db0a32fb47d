package node

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/internal/redistest"
)

// stuck is a pipe that is full, and that nobody reads.
func stuck(t *testing.T) *os.File {
	t.Helper()
	var ends [2]int
	if err := syscall.Pipe2(ends[:], syscall.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(ends[0]) })
	if err := syscall.SetNonblock(ends[1], true); err != nil {
		t.Fatal(err)
	}
	for _, chunk := range [][]byte{make([]byte, 4096), {0}} {
		for err := error(nil); err == nil; {
			_, err = syscall.Write(ends[1], chunk)
		}
	}
	if err := syscall.SetNonblock(ends[1], false); err != nil {
		t.Fatal(err)
	}
	w := os.NewFile(uintptr(ends[1]), "stuck")
	t.Cleanup(func() { w.Close() })
	return w
}

// Who reads standard error no more keeps no node from ending, whatever it shares, and however it complains of that.
func TestNodeEndsThoughNobodyReadsItsLog(t *testing.T) {
	server := redistest.Start(t)
	env := []string{"LEASESTORM_TOKENS=a sha256:" + hex64 + " v3:read", "LEASESTORM_REDIS_URL=" + server.URL(), "LEASESTORM_LOG=debug"}
	for _, system := range []string{systemPolling, systemElection, systemIntents} {
		t.Run(system, func(t *testing.T) {
			t.Parallel()
			args := []string{"--system=" + system, "--target=http://127.0.0.1:1"}
			if system == systemIntents {
				args = append(args, "--api=127.0.0.1:0")
			}
			c := startChildWith(t, stuck(t), env, args...)
			c.wait("ready")
			c.signal(syscall.SIGTERM)
			select {
			case <-c.done:
			case <-time.After(time.Minute):
				t.Fatal("it did not end within a minute")
			}
			if code := c.cmd.ProcessState.ExitCode(); code != exitDirty {
				t.Errorf("exit %d, want %d: entries are lost", code, exitDirty)
			}
		})
	}
}
