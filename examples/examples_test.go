// Package examples has example programs. Its test builds them, runs them against a real Redis and stops them.
package examples

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/leasestorm/leasestorm/internal/redistest"
	"github.com/leasestorm/leasestorm/lease"
	"github.com/leasestorm/leasestorm/lease/admin"
	"github.com/leasestorm/leasestorm/lease/election"
	"github.com/leasestorm/leasestorm/lease/intent"
	"github.com/leasestorm/leasestorm/lease/intent/store"
)

// program is a running program.
type program struct {
	*exec.Cmd
	mu  sync.Mutex
	log bytes.Buffer
}

func (p *program) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Write(b)
}

// said counts the lines that have all words.
func (p *program) said(words ...string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
lines:
	for line := range strings.Lines(p.log.String()) {
		for _, w := range words {
			if !strings.Contains(line, w) {
				continue lines
			}
		}
		n++
	}
	return n
}

func build(t *testing.T, name string) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), name)
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "./"+name).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return bin
}

func start(t *testing.T, bin string, env ...string) *program {
	t.Helper()
	p := &program{Cmd: exec.Command(bin)}
	p.Env, p.Stderr = append(os.Environ(), env...), p
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.Process.Kill()
		_ = p.Wait()
	})
	return p
}

// end stops the program and checks that it ends cleanly.
func end(t *testing.T, p *program) {
	t.Helper()
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(); err != nil {
		t.Fatalf("%v; it said %s", err, p.log.String())
	}
}

func eventually(t *testing.T, what string, is func() bool, of ...*program) {
	t.Helper()
	tick, late := time.NewTicker(20*time.Millisecond), time.After(30*time.Second)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-late:
			for _, p := range of {
				t.Logf("one said: %s", p.log.String())
			}
			t.Fatalf("not within 30 s: %s", what)
		}
	}
}

func get(url string) (code int, body string) {
	resp, err := http.Get(url)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text)
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// TestPoller: two pollers share four sessions. When one stops, the other polls all.
func TestPoller(t *testing.T) {
	server := redistest.Start(t)
	if err := admin.Bootstrap(t.Context(), server.Client(), lease.ManagerConfig{}); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for range 4 {
		id := uuid.NewString()
		ids = append(ids, id)
		server.Client().Set(t.Context(), "session:"+id, fmt.Sprintf(`{"id":%q,"isPaused":false}`, id), 0)
	}
	bin, addr := build(t, "poller"), freeAddress(t)
	first := start(t, bin, "REDIS_URL="+server.URL(), "HTTP_ADDR="+addr)
	second := start(t, bin, "REDIS_URL="+server.URL(), "HTTP_ADDR="+freeAddress(t))
	held := func(n int) func() bool {
		return func() bool {
			_, body := get("http://" + addr + "/metrics")
			return strings.Contains(body, fmt.Sprintf("\nleasestorm_leases_held %d\n", n))
		}
	}
	eventually(t, "they share", held(2), first, second)
	if code, body := get("http://" + addr + "/readyz"); code != http.StatusOK {
		t.Errorf("it is not ready: %d %s", code, body)
	}
	end(t, second)
	eventually(t, "the other has all", held(4), first, second)
	eventually(t, "all are polled", func() bool {
		for _, id := range ids {
			if first.said("polled", id) == 0 {
				return false
			}
		}
		return true
	}, first, second)
	end(t, first)
}

// TestLeader: the second process leads when the first has stopped, not before.
func TestLeader(t *testing.T) {
	server := redistest.Start(t)
	if err := admin.Bootstrap(t.Context(), server.Client(), election.Config{}); err != nil {
		t.Fatal(err)
	}
	bin := build(t, "leader")
	one, other := start(t, bin, "REDIS_URL="+server.URL()), start(t, bin, "REDIS_URL="+server.URL())
	eventually(t, "one leads", func() bool { return one.said("leading")+other.said("leading") > 2 }, one, other)
	if other.said("leading") > 0 {
		one, other = other, one
	}
	if n := other.said("leading"); n != 0 {
		t.Fatal("both lead")
	}
	end(t, one)
	eventually(t, "the other leads", func() bool { return other.said("leading") > 0 }, one, other)
	end(t, other)
}

// TestWorker: an accepted start runs, and ends with the worker.
func TestWorker(t *testing.T) {
	server := redistest.Start(t)
	st, err := store.New(server.Client(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if err := admin.Bootstrap(t.Context(), server.Client(), st.Options()); err != nil {
		t.Fatal(err)
	}
	w := start(t, build(t, "worker"), "REDIS_URL="+server.URL())
	id, _, err := st.Put(t.Context(), uuid.Must(uuid.NewV7()).String(), intent.Request{Resource: "news"}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	state := func(want intent.State) func() bool {
		return func() bool {
			got, err := st.Get(t.Context(), id)
			return err == nil && got.State == want
		}
	}
	eventually(t, "it runs", state(intent.StateRunning), w)
	end(t, w)
	eventually(t, "it ended", state(intent.StateEnded), w)
}

// TestNothingIsSaidOfThePassword: an invalid URL is not repeated.
func TestNothingIsSaidOfThePassword(t *testing.T) {
	for _, name := range []string{"poller", "leader", "worker"} {
		p := start(t, build(t, name), "REDIS_URL=redis://user:canary-password@host:port")
		if err := p.Wait(); err == nil {
			t.Errorf("%s ended without an error", name)
		}
		if log := p.log.String(); strings.Contains(log, "canary") || !strings.Contains(log, "REDIS_URL") {
			t.Errorf("%s said %s", name, log)
		}
	}
}
