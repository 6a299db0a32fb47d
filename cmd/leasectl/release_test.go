package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/internal/redistest"
	"github.com/leasestorm/leasestorm/lease"
)

// renew plays an owner that renews a lease and ignores requests to release it.
func renew(t *testing.T, s *redistest.Server, name string) {
	t.Helper()
	client := s.Client()
	set := func() { client.Set(t.Context(), "lease:name:"+name, "renews", time.Minute) }
	set()
	tick := time.NewTicker(50 * time.Millisecond)
	done := make(chan struct{})
	t.Cleanup(func() { tick.Stop(); close(done) })
	go func() {
		for {
			select {
			case <-tick.C:
				set()
			case <-done:
				return
			}
		}
	}()
}

// hold makes a keeper work under a lease until the lease is lost.
func hold(t *testing.T, s *redistest.Server, name string) (id string, over chan error) {
	t.Helper()
	k, err := lease.NewKeeper(s.Client(), lease.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.Stop() })
	begun := make(chan struct{})
	over = make(chan error, 1)
	go func() {
		over <- k.Do(context.WithoutCancel(t.Context()), name, func(ctx context.Context, _ int64) error {
			close(begun)
			<-ctx.Done()
			return nil
		})
	}()
	<-begun
	return k.InstanceID(), over
}

// A living owner releases its lease. For every other lease, release says when it expires or which instance to stop, and takes none.
func TestRelease(t *testing.T) {
	s := redistest.Start(t)
	var out, said bytes.Buffer
	run := func(args ...string) int {
		out.Reset()
		said.Reset()
		return execute(t.Context(), append(args, "--redis", s.URL()), &out, &said)
	}
	if code := run("bootstrap"); code != exitFine {
		t.Fatal(said.String())
	}
	owner, over := hold(t, s, "works")
	s.Do("SET", "lease:name:hangs", "hangs-1", "PX", "60000")
	s.Do("SET", "{lease:name:hangs}:fence", "7")
	s.Do("SET", "lease:name:endless", "endless-1")
	renew(t, s, "renews")
	code := run("release", "--json", "--within", "1s", "works", "hangs", "renews", "endless", "nobody", "works")
	var got struct{ Leases []ended }
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || code != exitFindings || len(got.Leases) != 5 {
		t.Fatalf("exit code %d, %v: %s%s", code, err, &out, &said)
	}
	for i, want := range []struct{ lease, result, owner, text string }{
		{"works", endGiven, owner, ""},
		{"hangs", endKept, "hangs-1", "hangs-1 did not release it within 1s, and has not renewed it since: it expires in 5"},
		{"renews", endKept, "renews", "renews did not release it within 1s, and renews it: stop the instance renews"},
		{"endless", endKept, "endless-1", "its key never expires: if no instance is endless-1, delete the key"},
		{"nobody", endFree, "", ""},
	} {
		e := got.Leases[i]
		if e.Lease != want.lease || e.Result != want.result || e.Owner != want.owner || !strings.Contains(e.Text, want.text) || e.Now != "" {
			t.Errorf("%+v, want %+v", e, want)
		}
	}
	if err := <-over; !errors.Is(err, lease.ErrLost) {
		t.Errorf("the work ended with %v", err)
	}
	if left := got.Leases[1].TTLMs; left < 50_000 || left > 60_000 || s.Do("GET", "lease:name:hangs") != "hangs-1" {
		t.Errorf("the lease of an owner that hangs: %d ms, %v", left, s.Do("GET", "lease:name:hangs"))
	}
	if code := run("release", "--within", "0", "hangs"); code != exitFindings || !strings.Contains(out.String(), "hangs: hangs-1 was not asked") {
		t.Errorf("exit code %d: %s%s", code, &out, &said)
	}
}

// If too few replicas acknowledge, release says that the name in the key does not count.
func TestReleaseNamesNoOwnerThatDoesNotCount(t *testing.T) {
	s := redistest.Start(t)
	s.Do("SET", "lease:epoch", "run:0:1 1")
	s.Do("SET", "lease:name:x", "a", "PX", "60000")
	var taken sync.WaitGroup
	taken.Go(func() {
		pause := time.NewTimer(200 * time.Millisecond)
		<-pause.C
		s.Do("SET", "lease:name:x", "b", "PX", "60000")
	})
	var out bytes.Buffer
	execute(t.Context(), []string{"release", "--redis", s.URL(), "x"}, &out, &out)
	taken.Wait()
	if !strings.Contains(out.String(), "its key names b, but too few replicas have acknowledged that") {
		t.Error(out.String())
	}
}

// Completion uses the environment's password only for the environment's Redis, not for a server on the command line.
func TestCompletionKeepsThePassword(t *testing.T) {
	s := redistest.Start(t)
	s.Do("SET", "lease:name:job", "a", "PX", "60000")
	s.Do("CONFIG", "SET", "requirepass", "secret")
	t.Setenv("LEASESTORM_REDIS_PASSWORD", "secret")
	for env, want := range map[string]bool{s.URL(): true, "redis://elsewhere": false} {
		t.Setenv("LEASESTORM_REDIS_URL", env)
		var out, said bytes.Buffer
		execute(t.Context(), []string{"__complete", "release", "--redis", s.URL(), ""}, &out, &said)
		if got := strings.HasPrefix(out.String(), "job\n"); got != want {
			t.Errorf("the environment has %s: %q", env, &out)
		}
	}
}
