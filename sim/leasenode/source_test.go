//go:build !wasip1

package leasenode

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leasestorm/leasestorm/sim/guest/wasm"
)

// An adapter must be in a module.
func TestOverlayWithoutModule(t *testing.T) {
	if _, err := Overlay(t.Context(), t.TempDir()); err == nil {
		t.Error("no error")
	}
}

// world is the host of one program: a clock that jumps, and the target, which has the session s.
type world struct {
	mono   int64
	random *rand.ChaCha8
	dialed []int32
	asked  map[int32][]byte
	said   [3]bytes.Buffer
}

func (w *world) Clock() (mono, wall int64) {
	w.mono += 100
	return w.mono, w.mono + 1e18
}

func (w *world) Random(p []byte)            { _, _ = w.random.Read(p) }
func (w *world) Dial(conn int32, _ string)  { w.dialed = append(w.dialed, conn) }
func (w *world) Write(conn int32, p []byte) { w.asked[conn] = append(w.asked[conn], p...) }
func (w *world) Close(conn int32)           { delete(w.asked, conn) }
func (w *world) Print(fd int32, p []byte)   { w.said[fd].Write(p) }
func (w *world) answer(request []byte) string {
	if bytes.HasPrefix(request, []byte("GET /sessions ")) {
		return "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n[\"s\"]"
	}
	return "HTTP/1.1 204 No Content\r\n\r\n"
}

const grants = `package main

import (
	"encoding/json"
	"fmt"
	"os"
)

var instance = os.Getenv("LEASESTORM_INSTANCE") // known before main

func main() {
	var q struct{ ID int; Op string }
	for in := json.NewDecoder(os.Stdin); in.Decode(&q) == nil; {
		fmt.Fprintln(os.Stderr, instance, q.Op)
		fmt.Printf("{\"id\":%d,\"ok\":true}\n", q.ID)
	}
}
`

// An adapter in Go becomes a node for wasip1, whatever its module's version of Go. The node acquires, polls, renews and releases.
func TestOverlayRunsLong(t *testing.T) {
	if testing.Short() {
		t.Skip("builds for another platform")
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module example.com/old\n\ngo 1.17\n", "main.go": grants} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	module, err := wasm.Compile(t.Context(), build(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = module.Close(t.Context()) }()
	w := &world{mono: 1e9, random: rand.NewChaCha8([32]byte{1}), asked: map[int32][]byte{}}
	code := w.run(t, module)
	var events []string
	for l := range strings.Lines(w.said[1].String()) {
		_, event, _ := strings.Cut(l, `{"event":"`)
		events = append(events, event[:strings.Index(event, `"`)])
	}
	const want = "ready acquired pollStart pollEnd pollStart pollEnd renewStart renewed pollStart pollEnd released stopped"
	if got := strings.Join(events, " "); code != 0 || got != want {
		t.Errorf("exit code %d, it said %s, want %s", code, got, want)
	}
	var instance, ops string
	for l := range strings.Lines(w.said[2].String()) {
		of, op, _ := strings.Cut(strings.TrimSpace(l), " ")
		instance, ops = of, ops+" "+op
	}
	if ops != " acquire check check renew check release" || !strings.Contains(w.said[1].String(), fmt.Sprintf(`"instance":%q`, instance)) {
		t.Errorf("the adapter of %q was asked%s", instance, ops)
	}
}

// run runs a program for 2.5 s, and then until it ends.
func (w *world) run(t *testing.T, module *wasm.Module) (code uint32) {
	p := module.Start([]string{
		"LEASESTORM_TARGET_URL=http://10.0.0.1:80", "LEASESTORM_LEASE_PREFIX=k:", "LEASESTORM_LEASE_OPTIONS=--check", "LEASESTORM_TTL_MS=6000",
		"LEASESTORM_RENEW_MS=2000", "LEASESTORM_DISCOVERY_MS=10000", "LEASESTORM_POLL_MS=1000", "LEASESTORM_POLL_TIMEOUT_MS=500",
	}, w)
	defer p.Kill()
	for begin, told := w.mono, false; ; {
		state := p.Run()
		switch {
		case state.Exited || state.Fell != "":
			if state.Fell != "" {
				t.Error(state.Fell)
			}
			return state.Code
		case len(w.dialed) > 0:
			p.Connected(w.dialed[0], "")
			w.dialed = w.dialed[1:]
			continue
		}
		idle := true
		for conn, request := range w.asked {
			if bytes.HasSuffix(request, []byte("\r\n\r\n")) {
				p.Deliver(conn, []byte(w.answer(request)))
				w.asked[conn], idle = nil, false
			}
		}
		if idle && !told && w.mono-begin > 25e8 {
			p.Signal()
			told = true
		} else if idle {
			w.mono = max(w.mono, state.Next)
		}
	}
}

// The adapter of redislock compiles.
func TestOverlayCompilesLong(t *testing.T) {
	if testing.Short() {
		t.Skip("downloads and builds for another platform")
	}
	t.Setenv("GOFLAGS", os.Getenv("GOFLAGS")+" -modfile=libraries.mod")
	build(t, "../../examples/leases/redislock.go")
}

func build(t *testing.T, adapter string) []byte {
	t.Helper()
	added, err := Overlay(t.Context(), adapter)
	if err != nil {
		t.Fatal(err)
	}
	module, err := wasm.Build(t.Context(), adapter, added)
	if err != nil {
		t.Fatal(err)
	}
	return module
}
