package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/internal/redistest"
)

// window is a time in which one instance believed in one term, as it said, on the machine's monotonic clock.
type window struct {
	instance   string
	fence      int64
	begin, end int64
}

// said is what nodes say that matters here (docs/node-protocol.md).
type said struct {
	Event, Instance, Session string
	Fence, T, Until          int64
}

// fleet is nodes that share sessions, and what they said.
type fleet struct {
	t       *testing.T
	env     []string
	mu      sync.Mutex
	windows map[string][]window
	byID    map[string]*exec.Cmd // by the instance ID that it said first
	fed     sync.WaitGroup
	nodes   []*exec.Cmd
}

// start starts one more node.
func (f *fleet) start() *exec.Cmd {
	path, err := exec.LookPath("node")
	if err != nil {
		f.t.Fatal(err)
	}
	cmd := exec.CommandContext(f.t.Context(), path)
	cmd.Env = append(os.Environ(), f.env...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		f.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	f.nodes = append(f.nodes, cmd)
	f.fed.Go(func() { f.hear(cmd, out) })
	return cmd
}

// hear reads what one node says, until it ends.
func (f *fleet) hear(cmd *exec.Cmd, out io.Reader) {
	open := map[string]*window{}
	end := func(session string) {
		if w := open[session]; w != nil {
			f.mu.Lock()
			f.windows[session] = append(f.windows[session], *w)
			f.mu.Unlock()
			delete(open, session)
		}
	}
	instance := ""
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var s said
		if json.Unmarshal(lines.Bytes(), &s) != nil {
			continue
		}
		if instance == "" && s.Instance != "" {
			instance = s.Instance
			f.mu.Lock()
			f.byID[instance] = cmd
			f.mu.Unlock()
		}
		switch w := open[s.Session]; {
		case s.Event == "acquired":
			end(s.Session)
			open[s.Session] = &window{instance, s.Fence, s.T, s.Until}
		case w == nil:
		case s.Event == "renewed":
			w.end = s.Until
		case s.Event == "lost" || s.Event == "released":
			w.end = min(w.end, s.T)
			end(s.Session)
		}
	}
	for session := range open { // it was killed, or hangs to the end
		end(session)
	}
}

// judge fails the test for every two windows of one lease that overlap, and for each fence that does not rise.
func (f *fleet) judge() (terms int) {
	for session, all := range f.windows {
		slices.SortFunc(all, func(a, b window) int { return cmp.Compare(a.begin, b.begin) })
		terms += len(all)
		for i := 1; i < len(all); i++ {
			a, b := all[i-1], all[i]
			if over := time.Duration(a.end - b.begin); over > 0 {
				f.t.Errorf("%s has two owners for %v: %s (fence %d) and %s (fence %d)", session, over, a.instance, a.fence, b.instance, b.fence)
			}
			if b.fence <= a.fence {
				f.t.Errorf("%s: fence %d after %d", session, b.fence, a.fence)
			}
		}
	}
	return terms
}

// Whatever release meets, owners that live, hang or are dead, many at once, no lease has two owners (G1).
func TestReleaseGivesNobodyTwoOwners(t *testing.T) {
	const sessions, nodes, rounds = 12, 4, 4
	srv := redistest.Start(t)
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	defer target.Close()
	ids := make([]string, sessions)
	for i := range ids {
		ids[i] = fmt.Sprintf("0190a8c2-8f5e-4c2a-9d7e-3b1f6a2c4d%02d", i)
		srv.Do("SET", "session:"+ids[i], fmt.Sprintf(`{"id":%q,"isPaused":false}`, ids[i]))
	}
	run := func(args ...string) (string, int) {
		var out, said bytes.Buffer
		code := execute(context.WithoutCancel(t.Context()), append(args, "--redis", srv.URL()), &out, &said)
		return out.String() + said.String(), code
	}
	if text, code := run("bootstrap", "--quarantine", "2s"); code != exitFine || !strings.Contains(text, "the quarantine is 2s") {
		t.Fatal(text)
	}
	f := &fleet{t: t, windows: map[string][]window{}, byID: map[string]*exec.Cmd{}, env: []string{
		"LEASESTORM_REDIS_URL=" + srv.URL(), "LEASESTORM_TARGET_URL=" + target.URL, "LEASESTORM_TTL_MS=2000", "LEASESTORM_POLL_MS=200",
	}}
	for range nodes {
		f.start()
	}
	ends := map[string]int{}
	for round := range rounds {
		// One hangs for longer than its leases live, and one dies; both own some.
		hung, dead := f.nodes[len(f.nodes)-1-round%2], f.nodes[len(f.nodes)-2]
		if hung == dead {
			dead = f.nodes[len(f.nodes)-1]
		}
		settle(t, run)
		signal := func(cmd *exec.Cmd, s syscall.Signal) {
			if err := cmd.Process.Signal(s); err != nil {
				t.Error(err)
			}
		}
		signal(hung, syscall.SIGSTOP)
		signal(dead, syscall.SIGKILL)
		var all sync.WaitGroup
		var mu sync.Mutex
		for range 6 {
			names := slices.Clone(ids)
			rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
			within := []string{"0s", "300ms", "1s"}[rand.IntN(3)]
			all.Go(func() {
				text, code := run(append([]string{"release", "--json", "--within", within}, names[:6]...)...)
				var got struct{ Leases []ended }
				if err := json.NewDecoder(bytes.NewBufferString(text)).Decode(&got); err != nil || code == exitRedis || code == exitWrong {
					t.Errorf("release ended with %d: %s", code, text)
				}
				mu.Lock()
				defer mu.Unlock()
				for _, e := range got.Leases {
					ends[e.Result]++
				}
			})
		}
		all.Wait()
		signal(hung, syscall.SIGCONT)
		_ = dead.Wait()
		f.nodes = slices.DeleteFunc(f.nodes, func(c *exec.Cmd) bool { return c == dead })
		f.start()
	}
	settle(t, run)
	for _, cmd := range f.nodes {
		_ = cmd.Process.Signal(syscall.SIGTERM)
	}
	f.fed.Wait()
	for _, cmd := range f.nodes {
		_ = cmd.Wait()
	}
	terms := f.judge()
	t.Logf("%d terms, releases ended: %v", terms, ends)
	if ends[endGiven] == 0 || ends[endFreed] == 0 || terms < sessions*rounds {
		t.Errorf("%d terms, releases ended: %v: the trial shows nothing", terms, ends)
	}
}

// settle waits until every lease has an owner that lives.
func settle(t *testing.T, run func(...string) (string, int)) {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for range 300 {
		<-tick.C
		text, code := run("status", "--json")
		var st status
		if err := json.NewDecoder(bytes.NewBufferString(text)).Decode(&st); code == exitRedis || err != nil {
			t.Fatalf("status ended with %d: %s", code, text)
		}
		alive := 0
		for _, in := range st.Instances {
			if in.TTLMs > 0 && in.Leases > 0 {
				alive++
			}
		}
		if len(st.Leases) == 12 && st.Doubtful == 0 && alive >= 4 {
			return
		}
	}
	t.Fatal("the fleet does not settle")
}
