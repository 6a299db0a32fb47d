package main

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/internal/redistest"
)

// behind is a Redis with two replicas behind Sentinel.
type behind struct {
	*testing.T
	*redistest.Replicated
}

// run runs leasectl with the sentinels.
func (b *behind) run(args ...string) (text string, code int) {
	b.Helper()
	var all []string
	for _, s := range b.Sentinels {
		all = append(all, s.Addr())
	}
	var out, said bytes.Buffer
	args = append(args, "--sentinels", strings.Join(all, ","), "--master-name", redistest.MasterName)
	code = execute(context.WithoutCancel(b.Context()), args, &out, &said)
	return out.String() + said.String(), code
}

// says runs leasectl until its output has these words.
func (b *behind) says(words string, args ...string) {
	b.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	text, code := "", 0
	for range 200 {
		if text, code = b.run(args...); code <= exitFindings && strings.Contains(text, words) {
			return
		}
		<-tick.C
	}
	b.Fatalf("leasectl %q ended with %d and does not say %q: %s", args, code, words, text)
}

// finds checks the findings.
func (b *behind) finds(args []string, want ...string) {
	b.Helper()
	text, _ := b.run(append([]string{"check", "--json"}, args...)...)
	var got struct{ Findings []finding }
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		b.Fatalf("%v: %s", err, text)
	}
	var names []string
	for _, f := range got.Findings {
		names = append(names, f.Name)
	}
	if !slices.Equal(names, want) {
		b.Errorf("check %q finds %q, not %q: %s", args, names, want, text)
	}
}

// Behind Sentinel, leasectl finds the master, before and after a failover, and says how many replicas acknowledge.
func TestBehindSentinel(t *testing.T) {
	b := &behind{t, redistest.StartReplicated(t)}
	var out bytes.Buffer
	code := execute(t.Context(), []string{"status", "--sentinels", b.Sentinels[0].Addr(), "--master-name", "nobody"}, &out, &out)
	if code != exitRedis || strings.Count(out.String(), "\n") != 1 || !strings.Contains(out.String(), "sentinel") {
		t.Errorf("exit code %d: %s", code, &out)
	}
	b.finds(nil, "persistence", "min-replicas", "no-epoch")
	b.Master().Do("CONFIG", "SET", "min-replicas-to-write", "1")
	b.finds(nil, "persistence", "no-epoch")
	b.Master().Do("CONFIG", "SET", "min-replicas-to-write", "3")
	b.finds(nil, "refused", "persistence", "min-replicas", "no-epoch")
	b.Master().Do("CONFIG", "SET", "min-replicas-to-write", "0")

	b.says("declared", "bootstrap", "--quarantine", "2s", "--replicas", "2")
	b.says("1 must acknowledge a write, and 2 do\n", "status")
	b.finds(nil, "persistence") // the epoch has the number of replicas
	b.finds([]string{"--replicas", "2"}, "persistence")
	b.finds([]string{"--replicas", "1"}, "replicas", "persistence")

	before := b.Master()
	b.Failover()
	b.AwaitSettled()
	if b.Master() == before {
		t.Fatal("the master is still the same")
	}
	b.says("quarantine: 2s", "quarantine")
	b.says("and is now 3s", "quarantine", "3s", "--replicas", "2")

	for _, s := range b.Servers {
		if s != b.Master() {
			s.Kill()
		}
	}
	b.says("1 must acknowledge a write, and 0 do: nothing is granted or renewed", "status")
	b.finds([]string{"--replicas", "2"}, "replicas", "persistence", "quarantine")
}
