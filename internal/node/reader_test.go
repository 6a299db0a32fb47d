package node

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leasestorm/leasestorm/internal/redistest"
	"github.com/leasestorm/leasestorm/lease"
	"github.com/leasestorm/leasestorm/lease/admin"
)

// Output that nobody reads fits into the 128 MiB that Docker and Kubernetes give a node, even while its buffer grows. Only whole lines are
// written.
func TestOutputThatNobodyReadsIsBounded(t *testing.T) {
	w := &slowReader{gate: make(chan struct{})}
	o := newOutput(w, clock{base: time.Now()}, "i", func(err error) { t.Errorf("broken: %v", err) })
	for range 24 << 20 / len(`{"event":"pollStart","session":"0190a8c2-8f5e-4c2a-9d7e-3b1f6a2c4d5e"`) {
		o.say(line{event: "pollStart", session: "0190a8c2-8f5e-4c2a-9d7e-3b1f6a2c4d5e", fence: 1 << 50, at: time.Now()})
	}
	o.mu.Lock()
	kept := cap(o.buf)
	o.mu.Unlock()
	if kept > 12<<20 {
		t.Errorf("%d MiB are kept for a reader", kept>>20)
	}
	close(w.gate)
	o.flush()
	o.close()
	written := bytes.Join(w.writes, nil)
	if len(written) < 8<<20 || !bytes.HasSuffix(written, []byte("}\n")) {
		t.Errorf("%d bytes were written, want 8 MiB of whole lines", len(written))
	}
}

// After dropped lines, the output has a line at the gap with their number.
func TestDroppedLinesAreTold(t *testing.T) {
	w := &slowReader{gate: make(chan struct{})}
	o := newOutput(w, clock{base: time.Now()}, "i", func(err error) { t.Errorf("broken: %v", err) })
	const said = 300_000
	for i := range int64(said) {
		o.say(line{event: "pollStart", session: "0190a8c2-8f5e-4c2a-9d7e-3b1f6a2c4d5e", fence: i + 1, at: time.Now()})
	}
	close(w.gate)
	o.flush()
	o.close()
	last, dropped := int64(0), int64(0)
	for text := range bytes.Lines(bytes.Join(w.writes, nil)) {
		var told struct {
			Event, Instance string
			Fence, T, Lines int64
		}
		if err := json.Unmarshal(text, &told); err != nil {
			t.Fatal(err)
		}
		if told.Event == "dropped" {
			dropped += told.Lines
			last += told.Lines
		} else {
			last++
		}
		if told.Instance != "i" || told.T <= 0 || told.Fence != 0 && told.Fence != last {
			t.Fatalf("%s follows on the line %d", text, last)
		}
	}
	if dropped == 0 || last != said {
		t.Errorf("of %d lines %d are there or dropped, of which %d are", said, last, dropped)
	}
}

// slowReader is a standard output with a slow reader.
type slowReader struct {
	mu     sync.Mutex
	writes [][]byte
	gate   chan struct{}
	err    error
}

func (w *slowReader) Write(p []byte) (int, error) {
	<-w.gate
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writes = append(w.writes, bytes.Clone(p))
	return len(p), w.err
}

func TestOutputNeverHoldsUpWhoSpeaks(t *testing.T) {
	w := &slowReader{gate: make(chan struct{})}
	c := clock{base: time.Now()}
	o := newOutput(w, c, `an "instance"`, func(err error) { t.Errorf("broken: %v", err) })
	for i := range 1000 {
		o.say(line{event: "acquired", session: "s", fence: int64(i + 1), at: c.base.Add(5), until: c.base.Add(7), reason: "r\"\n"})
	}
	close(w.gate)
	o.flush()
	o.close()
	if len(w.writes) > 3 {
		t.Errorf("1000 lines in %d writes", len(w.writes))
	}
	lines := bytes.Split(bytes.TrimSpace(bytes.Join(w.writes, nil)), []byte("\n"))
	if len(lines) != 1000 {
		t.Fatalf("%d lines", len(lines))
	}
	var got map[string]any
	if err := json.Unmarshal(lines[999], &got); err != nil {
		t.Fatalf("%s: %v", lines[999], err)
	}
	want := `map[event:acquired fence:1000 instance:an "instance" reason:r"` + "\n" + ` session:s t:5 until:7]`
	if fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
}

// A node whose standard output is not read ends within a limit.
func TestOutputThatNobodyReadsIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &slowReader{gate: make(chan struct{})}
		o := newOutput(w, clock{base: time.Now()}, "i", func(err error) { t.Errorf("broken: %v", err) })
		o.say(line{event: "stopped", at: time.Now()})
		before := time.Now()
		o.close()
		if took := time.Since(before); took != closeWithin {
			t.Errorf("closed after %v, not %v", took, closeWithin)
		}
		close(w.gate)
	})
}

func TestBrokenOutputIsTold(t *testing.T) {
	broken := make(chan error, 1)
	w := &slowReader{gate: make(chan struct{}), err: io.ErrClosedPipe}
	close(w.gate)
	o := newOutput(w, clock{base: time.Now()}, "i", func(err error) { broken <- err })
	o.say(line{event: "ready", at: time.Now()})
	if err := <-broken; !errors.Is(err, io.ErrClosedPipe) {
		t.Error(err)
	}
	o.say(line{event: "stopped", at: time.Now()})
	o.flush()
	o.close()
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); <-time.After(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

// A node whose standard output is closed ends and releases its leases. A node whose log is closed keeps running.
func TestNodeWhoseReadersEnd(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	if err := admin.Bootstrap(t.Context(), client, lease.ManagerConfig{Config: lease.Config{TTL: 20 * time.Second}}); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		id := fmt.Sprintf("00000000-0000-4000-8000-%012d", i)
		client.Set(t.Context(), "session:"+id, fmt.Sprintf(`{"id":%q,"isPaused":false}`, id), 0)
	}
	leases := func() int { return len(client.Keys(t.Context(), "poll:lease:*").Val()) }
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, closed := range []string{"standard output", "log"} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(exe, "--redis="+server.URL(), "--target=http://127.0.0.1:1", "--ttl=20s", "--renew=200ms", "--poll=100ms")
		cmd.Env = append(os.Environ(), asNode+"=1")
		if cmd.Stdout = w; closed == "log" {
			cmd.Stdout, cmd.Stderr = nil, w
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		t.Cleanup(func() { _ = cmd.Process.Kill(); _, _ = r.Close(), w.Close() })
		owns := func(n int) bool { return leases() == n }
		eventually(t, "it owns three leases", func() bool { return owns(3) })
		_, _ = w.Close(), r.Close()
		if closed == "log" {
			left, renewals := time.Duration(0), 0
			eventually(t, "it renews, and logs that", func() bool {
				is := client.PTTL(t.Context(), "poll:lease:00000000-0000-4000-8000-000000000000").Val()
				if is > left {
					renewals++
				}
				left = is
				return renewals > 3
			})
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
		}
		select {
		case err := <-ended:
			if err != nil || !owns(0) {
				t.Errorf("%s: %v, %d leases are left", closed, err, leases())
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("%s: it lives on", closed)
		}
	}
}

// A node whose log is not read ends within a few seconds.
func TestNodeEndsWhereNobodyReadsItsLog(t *testing.T) {
	server := redistest.Start(t)
	for name, args := range map[string][]string{
		"polls":  {"--target=http://127.0.0.1:1"},
		"worker": {"--system=intents", "--role=worker"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			room, err := unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, os.Getpagesize())
			if err == nil {
				_, err = w.Write(make([]byte, room))
			}
			if err != nil {
				t.Fatal(err)
			}
			c := startChildTo(t, w, nil, append(args, "--redis="+server.URL(), "--ttl=2s")...)
			w.Close()
			c.wait("ready")
			c.signal(syscall.SIGTERM)
			select {
			case <-c.done:
			case <-time.After(30 * time.Second):
				t.Error("not ended 30 s after it was told to")
			}
		})
	}
}
