package real

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/internal/servetest"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/real/process"
)

// impostor is a server that answers every line with what reply returns.
func impostor(t *testing.T, reply func(line string) string) string {
	t.Helper()
	return "redis://" + servetest.Serve(t, func(c net.Conn) {
		for in := bufio.NewScanner(c); in.Scan(); {
			_, _ = io.WriteString(c, reply(in.Text()))
		}
	})
}

// info makes an impostor answer INFO with the fields.
func info(fields string) func(string) string {
	return func(line string) string {
		switch strings.ToLower(line) {
		case "hello", "eval":
			return "-ERR unknown command\r\n"
		case "info":
		default:
			return ""
		}
		return "$" + strconv.Itoa(len(fields)) + "\r\n" + fields + "\r\n"
	}
}

func TestProvisionRefuses(t *testing.T) {
	used := provision(t)
	if err := used.client.Load().Set(t.Context(), "session:1", "{}", 0).Err(); err != nil {
		t.Fatal(err)
	}
	locked := provision(t)
	if err := locked.client.Load().ConfigSet(t.Context(), "requirepass", "secret").Err(); err != nil {
		t.Fatal(err)
	}
	closed := "redis://127.0.0.1:1"
	for name, c := range map[string]struct {
		choice RedisChoice
		want   error
		says   string
	}{
		"unknown kind":     {RedisChoice{Kind: "cloud"}, ErrChoice, "allowed are"},
		"URL and a kind":   {RedisChoice{Kind: "server", URL: closed}, ErrChoice, "kind"},
		"no URL":           {RedisChoice{Kind: "url", URL: "localhost"}, ErrChoice, "redis://"},
		"TLS":              {RedisChoice{Kind: "url", URL: "rediss://localhost:1"}, ErrChoice, "TCP proxies"},
		"nothing there":    {RedisChoice{Kind: "url", URL: closed}, ErrNoRedis, "is it running"},
		"not a Redis":      {RedisChoice{Kind: "url", URL: impostor(t, func(string) string { return "HTTP/1.1 400\r\n" })}, ErrNoRedis, "127.0.0.1"},
		"too old":          {RedisChoice{Kind: "url", URL: impostor(t, info("redis_version:6.0.16\r\nrole:master"))}, ErrTooOld, "6.2"},
		"a replica":        {RedisChoice{Kind: "url", URL: impostor(t, info("redis_version:7.0.15\r\nrole:slave\r\nmaster_host:h\r\nmaster_port:6379"))}, ErrReplica, "h:6379"},
		"lacks a command":  {RedisChoice{Kind: "url", URL: impostor(t, info("redis_version:7.0.15\r\nrole:master"))}, ErrChoice, "lacks a command"},
		"wants a password": {RedisChoice{Kind: "url", URL: locked.raw}, ErrPassword, "wants one"},
		"wrong password":   {RedisChoice{Kind: "url", URL: strings.Replace(locked.raw, "://", "://:wrong@", 1)}, ErrPassword, "…@"},
		"in use":           {RedisChoice{Kind: "url", URL: used.raw}, ErrNotEmpty, "session:1"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := Provision(t.Context(), c.choice, t.TempDir())
			if err == nil {
				_ = r.Close()
			}
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("Provision: %v, want %v that says %q", err, c.want, c.says)
			}
			if err != nil && strings.Contains(err.Error(), "wrong@") {
				t.Errorf("the message shows the password: %v", err)
			}
		})
	}
	if keys := used.client.Load().Keys(t.Context(), "*").Val(); !slices.Equal(keys, []string{"session:1"}) {
		t.Errorf("a refused database was touched, it has %q", keys)
	}
}

// Of two concurrent storms on one database, one runs and the other fails.
func TestOneStormHasAGivenRedis(t *testing.T) {
	given := provision(t)
	choice := RedisChoice{Kind: "url", URL: given.raw}
	for range 50 {
		var both sync.WaitGroup
		var runs [2]*Redis
		var errs [2]error
		for i := range runs {
			both.Go(func() { runs[i], errs[i] = Provision(t.Context(), choice, "") })
		}
		both.Wait()
		won := slices.IndexFunc(errs[:], func(err error) bool { return err == nil })
		if won < 0 {
			t.Fatalf("neither has it: %v", errs)
		}
		if err := errs[1-won]; !errors.Is(err, ErrNotEmpty) || !strings.Contains(err.Error(), "another storm") {
			t.Errorf("the other is told %v, want ErrNotEmpty that says another storm plays there", err)
		}
		if left := given.client.Load().TTL(t.Context(), claimKey).Val(); left != -1 {
			t.Errorf("the claim of who plays ends in %v", left)
		}
		for _, r := range runs {
			if r != nil {
				if err := r.Close(); err != nil {
					t.Error(err)
				}
			}
		}
	}
	if keys := given.client.Load().Keys(t.Context(), "*").Val(); len(keys) > 0 {
		t.Errorf("%q are left", keys)
	}
}

func TestProvisionGivesUpOnASilentServer(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := Provision(ctx, RedisChoice{Kind: "url", URL: impostor(t, func(string) string { return "" })}, "")
	if !errors.Is(err, ErrNoRedis) {
		t.Errorf("Provision: %v, want ErrNoRedis", err)
	}
}

// If no server can be started, the advice fits the choice: no other kind of Redis can replace several servers.
func TestWithoutServerAdviseWhatHelps(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for _, c := range []struct {
		choice         RedisChoice
		helps, refused string
	}{
		{RedisChoice{Kind: kindServer}, "embedded", "--engine virtual"},
		{RedisChoice{Servers: 3}, "--engine virtual", "embedded"},
		{RedisChoice{Servers: 2, Cluster: true}, "--engine virtual", "redis://"},
	} {
		_, err := Provision(t.Context(), c.choice, t.TempDir())
		if !errors.Is(err, ErrNoServer) || !strings.Contains(err.Error(), c.helps) || strings.Contains(err.Error(), c.refused) {
			t.Errorf("%+v: %v", c.choice, err)
		}
	}
}

// If the kernel kills a process of Redis, as it does without memory, the nodes are not at fault, even if a later fault restarts the
// process.
func TestARedisThatNobodyKilledHasNoVerdict(t *testing.T) {
	behind := func(t *testing.T) *Redis { return provisionChoice(t, RedisChoice{Servers: 2}) }
	for name, c := range map[string]struct {
		provision func(*testing.T) *Redis
		which     func(*Redis) process.Program
		kind      fault.Kind
	}{
		"the server": {provision, func(r *Redis) process.Program { return r.server.proc }, fault.RedisRestart},
		"a replica":  {behind, func(r *Redis) process.Program { return r.replicated.members[1].proc }, fault.ClientKill},
		"a sentinel": {behind, func(r *Redis) process.Program { return r.replicated.sentinels[2].proc }, fault.ClientKill},
	} {
		t.Run(name, func(t *testing.T) {
			r := c.provision(t)
			killedByNobody(t, r, c.which(r), c.kind)
		})
	}
}

func TestARedisInAContainerThatNobodyKilledHasNoVerdictLong(t *testing.T) {
	if testing.Short() {
		t.Skip("containers: make long plays it")
	}
	r := inContainer(t)
	killedByNobody(t, r, r.server.proc, fault.RedisRestart)
}

func killedByNobody(t *testing.T, r *Redis, victim process.Program, kind fault.Kind) {
	t.Helper()
	cfg := config(t, fault.Fault{Kind: kind, At: 1300 * time.Millisecond})
	cfg.TTL = time.Minute // a longer silence of Redis has no verdict either, and Docker may report an end late
	killed := false
	cfg.Progress = func(p Progress) {
		if p.Phase == "storm" && !killed {
			killed = true
			victim.Kill() // without the harness's knowledge
		}
	}
	_, err := Run(t.Context(), r, cfg, history.NewRecorder())
	if !errors.Is(err, ErrGone) || !strings.Contains(err.Error(), "dmesg") {
		t.Errorf("it ends with %v", err)
	}
}
