package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/internal/redistest"
)

// behind is a fleet of nodes on a Redis with replicas behind Sentinel, and leasectl for it.
type behind struct {
	fleet
	*redistest.Replicated

	lease string
	alone bool // nobody acknowledges
}

// run runs leasectl, which asks the sentinels.
func (b *behind) run(args ...string) (text string, code int) {
	b.t.Helper()
	var out, said bytes.Buffer
	code = execute(context.WithoutCancel(b.t.Context()), append(args, "--sentinels", b.sentinels(), "--master-name", redistest.MasterName), &out, &said)
	b.t.Logf("leasectl %s: %d\n%s%s", strings.Join(args, " "), code, &out, &said)
	return out.String() + said.String(), code
}

// ends runs leasectl and holds its exit code (-1: any) and some of its words.
func (b *behind) ends(code int, args []string, words ...string) {
	b.t.Helper()
	text, got := b.run(args...)
	if got != code && code >= 0 {
		b.t.Errorf("leasectl %q ended with %d, not %d: %s", args, got, code, text)
	}
	for _, w := range words {
		if !strings.Contains(text, w) {
			b.t.Errorf("leasectl %q does not say %q: %s", args, w, text)
		}
	}
}

// finds holds which findings there are. A lease that nobody can renew is doubtful sooner or later, which is a question of how fast this test is.
func (b *behind) finds(args []string, want ...string) {
	b.t.Helper()
	text, _ := b.run(append([]string{"check", "--json"}, args...)...)
	var got struct{ Findings []finding }
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		b.t.Fatalf("%v: %s", err, text)
	}
	var names []string
	for _, f := range got.Findings {
		if f.Name != "doubtful" || !b.alone {
			names = append(names, f.Name)
		}
	}
	if !slices.Equal(names, want) {
		b.t.Errorf("check %q finds %q, not %q: %s", args, names, want, text)
	}
}

func (b *behind) sentinels() string {
	var all []string
	for _, s := range b.Sentinels {
		all = append(all, s.Addr())
	}
	return strings.Join(all, ",")
}

// owned waits until the lease has an owner that lives, another than one, and the quarantine is over.
func (b *behind) owned(not string) (owner string) {
	b.t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for range 300 {
		<-tick.C
		text, code := b.run("status", "--json")
		var st status
		if err := json.Unmarshal([]byte(text), &st); err == nil && code == exitFine && len(st.Leases) == 1 && st.Leases[0].Owner != not &&
			st.Group.QuarantineLeftMs == 0 && !st.Group.EpochOver {
			return st.Leases[0].Owner
		}
	}
	b.t.Fatal("nobody has the lease")
	return ""
}

// signal sends a signal to the node of an instance ID.
func (b *behind) signal(owner string, s syscall.Signal) {
	b.t.Helper()
	b.mu.Lock()
	cmd := b.byID[owner]
	b.mu.Unlock()
	if cmd == nil {
		b.t.Fatalf("no node is %s", owner)
	}
	if err := cmd.Process.Signal(s); err != nil {
		b.t.Fatal(err)
	}
}

// acknowledged holds what the last line of a release goes by.
func (b *behind) acknowledged(when string, least, need int) {
	b.t.Helper()
	store, err := redisstore.New(b.Client(), redisstore.Options{Quarantine: 2 * time.Second, Replicas: 2, OpTimeout: time.Second})
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	r := &releasing{g: &group{Store: store}}
	end := &ended{Lease: b.lease, Result: endFreed, Owner: "a", Now: "b"}
	r.doubt(b.t.Context(), []*ended{end})
	if counts := least >= need; (end.Now == "b") != counts || (end.Named == "b") == counts || strings.Contains(end.line(), "now b's") != counts {
		b.t.Errorf("%s: %s", when, end.line())
	}
	if have, wanted, err := store.Acknowledged(b.t.Context()); err != nil || have < least || have >= need && least < need || wanted != need {
		b.t.Errorf("%s: %d of %d acknowledge, %v", when, have, wanted, err)
	}
}

// What leasectl does behind Sentinel, of a fleet whose Replicas is set: it finds the master, says what acknowledges, and a lease of an owner
// that hangs is fenced off there, before and after a failover and without a majority. No lease has two owners (G1).
func TestBehindSentinelWithReplicas(t *testing.T) {
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	defer target.Close()
	b := &behind{fleet: fleet{t: t}, Replicated: redistest.StartReplicated(t), lease: "0190a8c2-8f5e-4c2a-9d7e-3b1f6a2c4d01"}
	b.ends(exitFine, []string{"bootstrap", "--quarantine", "2s", "--replicas", "2"}, "declared")
	b.Master().Do("SET", "session:"+b.lease, fmt.Sprintf(`{"id":%q,"isPaused":false}`, b.lease))
	b.windows, b.byID = map[string][]window{}, map[string]*exec.Cmd{}
	b.env = []string{
		"LEASESTORM_SENTINELS=" + b.sentinels(), "LEASESTORM_MASTER_NAME=" + redistest.MasterName, "LEASESTORM_TARGET_URL=" + target.URL,
		"LEASESTORM_REPLICAS=2", "LEASESTORM_TTL_MS=2000", "LEASESTORM_POLL_MS=200",
	}
	b.start()
	b.start()
	owner := b.owned("")

	b.ends(-1, []string{"status"}, ", master", "1 must acknowledge what counts, and 2 do\n")
	b.finds([]string{"--replicas", "2"}, "persistence")
	b.finds(nil, "persistence") // the epoch says how many
	b.finds([]string{"--replicas", "1"}, "replicas", "persistence")

	hang := func(s syscall.Signal) { b.signal(owner, s) }
	release := []string{"release", "--within", "200ms", "--replicas", "2", b.lease}
	b.ends(exitFine, []string{"release", "--replicas", "2", b.lease}, "no longer "+owner+"'s")
	b.acknowledged("with both replicas", 1, 1)
	owner = b.owned("")
	hang(syscall.SIGSTOP)
	b.ends(exitFine, release, "did not give it back within 200ms; fenced off", "fenced off from "+owner+", and expired")
	next := b.owned(owner)
	hang(syscall.SIGCONT)
	owner = next

	before := b.Master()
	b.Failover()
	b.AwaitSettled()
	if now := b.Master(); now == before {
		t.Fatal("the master is still the same")
	}
	b.ends(exitFine, []string{"quarantine"}, "2s, over")
	b.ends(exitFine, []string{"quarantine", "3s", "--replicas", "2"}, "was 2s and is 3s")
	owner = b.owned("")
	hang(syscall.SIGSTOP)
	b.ends(exitFine, release, "fenced off from "+owner+", and expired")
	next = b.owned(owner)
	hang(syscall.SIGCONT)
	owner = next

	for _, s := range b.Servers {
		if s != b.Master() {
			s.Kill()
		}
	}
	b.alone = true
	b.acknowledged("without replicas", 0, 1)
	b.finds([]string{"--replicas", "2"}, "replicas", "persistence")
	b.finds(nil, "persistence", "replicas")
	hang(syscall.SIGSTOP)
	text, code := b.run(release...)
	for _, w := range []string{redisstore.ErrUnacknowledged.Error(), "a failover may undo it", "fenced off from " + owner + ", and expired"} {
		if code != exitFine || !strings.Contains(text, w) {
			t.Errorf("without a majority release ends with %d and does not say %q: %s", code, w, text)
		}
	}
	if strings.Contains(text, "; now ") { // what nobody acknowledged
		t.Errorf("without a majority somebody is said to have the lease: %s", text)
	}
	b.ends(-1, []string{"status"}, "1 must acknowledge what counts, and 0 do: nothing is granted or renewed")
	hang(syscall.SIGCONT)
	for _, cmd := range b.nodes {
		_ = cmd.Process.Signal(syscall.SIGTERM)
	}
	b.fed.Wait()
	for _, cmd := range b.nodes {
		_ = cmd.Wait()
	}
	if terms := b.judge(); terms < 4 {
		t.Errorf("%d terms: the trial shows nothing", terms)
	}
}

// Sentinels that do not know the master's name, and some that are away: one line, and exit code 2. What check finds of min-replicas-to-write
// where there is no epoch that says how many replicas must acknowledge.
func TestCheckBehindSentinel(t *testing.T) {
	b := &behind{fleet: fleet{t: t}, Replicated: redistest.StartReplicated(t)}
	for _, args := range [][]string{
		{"--sentinels", b.sentinels(), "--master-name", "nobody"}, {"--sentinels", "127.0.0.1:1", "--master-name", redistest.MasterName},
	} {
		for _, command := range []string{"status", "check"} {
			var out, said bytes.Buffer
			code := execute(t.Context(), append([]string{command}, args...), &out, &said)
			if code != exitRedis || strings.Count(said.String(), "\n") != 1 || !strings.Contains(said.String(), "sentinel") || out.Len() > 0 {
				t.Errorf("%s %q: %d %s%s", command, args, code, &out, &said)
			}
		}
	}
	b.finds(nil, "persistence", "min-replicas", "no-epoch")
	b.Master().Do("CONFIG", "SET", "min-replicas-to-write", "1")
	b.finds(nil, "persistence", "no-epoch")
	b.Master().Do("CONFIG", "SET", "min-replicas-to-write", "3")
	b.finds(nil, "refused", "persistence", "min-replicas", "no-epoch")
}

// A Redis whose clock is far from this machine's is found, and one within what was measured or a second is not.
func TestCheckFindsClocks(t *testing.T) {
	g := &group{client: redistest.Start(t, redistest.AppendOnly()).Client()}
	for _, c := range []struct {
		ahead, within time.Duration
		found         bool
	}{
		{time.Minute, time.Millisecond, true}, {-2 * time.Second, time.Millisecond, true},
		{900 * time.Millisecond, time.Millisecond, false}, {3 * time.Second, 2500 * time.Millisecond, false},
	} {
		now := &redisstore.Group{Ahead: c.ahead, Within: c.within, Info: redisstore.Info{Fields: map[string]string{"aof_enabled": "1"}}}
		all := g.server(t.Context(), now, &flags{timeout: time.Second})
		if found := len(all) == 1 && all[0].Name == "clock" && strings.Contains(all[0].What, c.ahead.Abs().String()); found != c.found ||
			len(all) > 0 && !found {
			t.Errorf("%v ± %v: %v", c.ahead, c.within, all)
		}
	}
}

// A snapshot that could not be written is found before Redis refuses writes for it.
func TestCheckFindsSnapshotsThatFail(t *testing.T) {
	g := &group{client: redistest.Start(t, redistest.AppendOnly()).Client()}
	now := &redisstore.Group{Info: redisstore.Info{Fields: map[string]string{"aof_enabled": "1", "rdb_last_bgsave_status": "err", "aof_last_write_status": "ok"}}}
	if all := g.server(t.Context(), now, &flags{timeout: time.Second}); len(all) != 1 || all[0].Name != "persistence" ||
		!strings.Contains(all[0].What, "rdb_last_bgsave_status is err") {
		t.Errorf("%v", all)
	}
}
