package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/redisflags"
	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/internal/redistest"
	"github.com/leasestorm/leasestorm/internal/servetest"
)

// Whoever names a lease is offered to no shell that would evaluate the name, or take it for a flag.
func TestHostileNamesAreNotCompleted(t *testing.T) {
	srv := redistest.Start(t)
	for _, name := range []string{
		"job-1", "a:b/c@d_e+f.g", "$(touch x)a", "`id>x`b", "--redis=redis://127.0.0.1:1", "-h", "_activeHelp_ do it", "a;b", "a b", "a'b", `a"b`,
		`a\b`, "a|b", "a&b", "~a", "*", "a\tb", "a\nb", "é",
	} {
		srv.Do("SET", "poll:lease:"+name, "somebody", "PX", 60_000)
	}
	var out, said bytes.Buffer
	args := []string{"__complete", "release", "--redis", srv.URL(), ""}
	if code := execute(context.WithoutCancel(t.Context()), args, &out, &said); code != exitFine {
		t.Fatalf("exit %d: %s", code, said.String())
	}
	names, _, _ := strings.Cut(out.String(), "\n:")
	if names != "a:b/c@d_e+f.g\njob-1" && names != "job-1\na:b/c@d_e+f.g" {
		t.Errorf("offered: %q", names)
	}
}

// A server that the typed line names, which nobody has sent off yet, is told no password that stands elsewhere.
func TestCompletionKeepsThePassword(t *testing.T) {
	const secret = "c4n4ry"
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		url, password, file, sentinels string // of the environment; HOST is the server
		typed                          []string
		told                           bool
	}{
		"all of the environment":       {url: "redis://HOST", password: secret, told: true},
		"URL of the environment":       {url: "redis://u:" + secret + "@HOST", told: true},
		"a host":                       {url: "redis://127.0.0.1:1", password: secret, typed: []string{"--redis", "redis://u@HOST"}},
		"a host, a file elsewhere":     {file: file, typed: []string{"--redis", "redis://HOST"}},
		"a host and its file":          {password: "other", typed: []string{"--redis", "redis://HOST", "--redis-password-file", file}, told: true},
		"a host and its password":      {password: "other", typed: []string{"--redis", "redis://u:" + secret + "@HOST"}, told: true},
		"sentinels":                    {url: "redis://u:" + secret + "@127.0.0.1:1", password: secret, typed: []string{"--sentinels", "HOST"}},
		"a URL beside known sentinels": {password: secret, sentinels: "HOST", typed: []string{"--redis", "redis://u@127.0.0.1:1"}, told: true},
	} {
		t.Run(name, func(t *testing.T) {
			host, heard := listens(t)
			at := strings.NewReplacer("HOST", host).Replace
			t.Setenv("LEASESTORM_REDIS_URL", at(c.url))
			t.Setenv("LEASESTORM_REDIS_PASSWORD", c.password)
			t.Setenv("LEASESTORM_REDIS_PASSWORD_FILE", c.file)
			t.Setenv("LEASESTORM_SENTINELS", at(c.sentinels))
			t.Setenv("LEASESTORM_MASTER_NAME", "m")
			args := []string{"__complete", "release", "--timeout", "10s"}
			for _, word := range c.typed {
				args = append(args, at(word))
			}
			var out bytes.Buffer
			execute(context.WithoutCancel(t.Context()), append(args, ""), &out, &out)
			if all := heard(); all == "" || strings.Contains(all, secret) != c.told || strings.Contains(all, "other") {
				t.Errorf("it heard %q; told: %v", all, c.told)
			}
		})
	}
}

// listens is a server that refuses everything but is, as a sentinel, the master itself, and what it heard.
func listens(t *testing.T) (addr string, heard func() string) {
	t.Helper()
	var mu sync.Mutex
	var all strings.Builder
	answer := func(at net.Addr, words []string) string {
		mu.Lock()
		defer mu.Unlock()
		all.WriteString(strings.ToLower(strings.Join(words, " ")) + " ")
		if len(words) > 1 && words[1] == "get-master-addr-by-name" {
			host, port, _ := net.SplitHostPort(at.String())
			return fmt.Sprintf("*2\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", len(host), host, len(port), port)
		}
		return "-ERR no\r\n"
	}
	addr = servetest.Serve(t, func(c net.Conn) {
		servetest.Commands(c, func(words []string) string { return answer(c.LocalAddr(), words) })
	})
	return addr, func() string {
		mu.Lock()
		defer mu.Unlock()
		return all.String()
	}
}

// Who answers a little at a time does not hold a reading for longer than it may take.
func TestSlowReadingsEnd(t *testing.T) {
	f := flags{system: systemPolling, timeout: redisstore.OpTimeoutDefault, Settings: redisflags.Settings{URL: redistest.Start(t).URL()}}
	cmd := newRoot(func(string) string { return "" })
	g, err := f.open(cmd)
	if err != nil {
		t.Fatal(err)
	}
	defer g.close()
	o, err := f.options(g.client)
	if err != nil {
		t.Fatal(err)
	}
	o.Hooks = []redis.Hook{redistest.Endless{Pause: 20 * time.Millisecond}}
	slow, err := redisstore.New(g.client, o)
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	g.Store = slow
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err = g.status(ctx, nil)
	if took := time.Since(began); !errors.Is(err, redisstore.ErrSlow) || codeOf(err) != exitRedis || took > 30*time.Second {
		t.Errorf("%v after %v", err, took)
	}
}

// What a foreign hand wrote is cut, also where it is shown as what was before.
func TestLongTextIsCut(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	before, now := &status{}, &status{Leases: []held{{Lease: long, Owner: "b"}}}
	before.Leases = []held{{Lease: long, Owner: long}}
	before.Group.Epoch, now.Group.Epoch, now.Group.EpochOver = long, long+"y", true
	changes := differences(before, now)
	if len(changes) != 2 {
		t.Fatalf("%d changes", len(changes))
	}
	for _, c := range changes {
		if line := c.line(); len(line) > 500 || !strings.Contains(line, "…") {
			t.Errorf("%d bytes: %.600s", len(line), line)
		}
	}
	var table bytes.Buffer
	if err := now.table(&table); err != nil || table.Len() > 2000 {
		t.Errorf("%d bytes, %v", table.Len(), err)
	}
}
