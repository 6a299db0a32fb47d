package lease_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/leasestorm/leasestorm/internal/redistest"
	"github.com/leasestorm/leasestorm/lease"
	"github.com/leasestorm/leasestorm/lease/admin"
	"github.com/leasestorm/leasestorm/lease/election"
	"github.com/leasestorm/leasestorm/lease/intent"
	"github.com/leasestorm/leasestorm/lease/intent/api"
	"github.com/leasestorm/leasestorm/lease/intent/store"
	"github.com/leasestorm/leasestorm/lease/intent/worker"
	"github.com/leasestorm/leasestorm/lease/poll"
)

const sessionID = "0190a8c2-8f5e-4c2a-9d7e-3b1f6a2c4d5e"

// ttl is the TTL of all leases here. It is long enough that a stall of a second costs neither an answer nor a lease.
const ttl = 3 * time.Second

// user does what one kind of user is for: Start, and then its work.
type user struct {
	start, stop func() error
	works       func() bool
}

var users = map[string]func(t *testing.T, admin, client *redis.Client) user{
	"keeper": func(t *testing.T, _, client *redis.Client) user {
		k := must(lease.NewKeeper(client, lease.Config{TTL: ttl, OpTimeout: ttl / 2, Logger: zap.NewNop()}))(t)
		return user{func() error { return k.Start(t.Context()) }, k.Stop, func() bool {
			return k.Do(t.Context(), "job", func(context.Context, int64) error { return nil }) == nil && k.Health().OK()
		}}
	},
	"manager": func(t *testing.T, _, client *redis.Client) user {
		m := must(lease.NewManager(client, lease.ManagerConfig{Config: lease.Config{TTL: ttl, OpTimeout: ttl / 2, Logger: zap.NewNop()},
			Sessions: func(context.Context) ([]string, error) { return []string{sessionID}, nil }}))(t)
		return user{func() error { return m.Start(t.Context()) }, m.Stop, func() bool { return m.IsOwned(sessionID) && m.Health().OK() }}
	},
	"poller": func(t *testing.T, admin, client *redis.Client) user {
		admin.Set(t.Context(), "session:"+sessionID, `{"id":"`+sessionID+`","isPaused":false}`, 0)
		polled := make(chan struct{}, 1000)
		m := must(poll.New(client, lease.Config{TTL: ttl, OpTimeout: ttl / 2, Logger: zap.NewNop()}, poll.Config{Interval: 100 * time.Millisecond,
			Poll: func(context.Context, poll.Session) error { polled <- struct{}{}; return nil }}))(t)
		return user{func() error { return m.Start(t.Context()) }, m.Stop, func() bool { return len(polled) > 0 && m.Health().OK() }}
	},
	"election": func(t *testing.T, _, client *redis.Client) user {
		cfg := election.Config{LeaderTTL: ttl, OpTimeout: ttl / 2, Logger: zap.NewNop()}
		e, f := must(election.New(client, cfg))(t), must(election.New(client, cfg))(t)
		start := func() error { return errors.Join(e.Start(t.Context()), f.Start(t.Context())) }
		return user{start, func() error { return errors.Join(e.Stop(), f.Stop()) }, func() bool {
			return e.IsLeader() != f.IsLeader() && e.Stats().Cycles+f.Stats().Cycles > 0 && e.Health().OK() && f.Health().OK()
		}}
	},
	"worker": func(t *testing.T, admin, client *redis.Client) user {
		opt := store.Options{Leases: lease.Config{TTL: ttl, OpTimeout: ttl * 2 / 5}}
		st := must(store.New(admin, opt))(t)
		w := must(worker.New(client, worker.Config{Store: opt, Slots: []string{"1"}, Logger: zap.NewNop(),
			NewPipeline: func(worker.Job) worker.Pipeline { return idle(make(chan struct{}, 1)) }}))(t)
		stop := func() error { st.Close(); return w.Stop() }
		return user{func() error { return w.Start(t.Context()) }, stop, func() bool {
			_, _, err := st.Put(t.Context(), sessionID, intent.Request{Resource: "1:0:1"}, time.Hour)
			got, _ := st.Get(t.Context(), sessionID)
			if got.State == intent.StateRunning {
				_, err = st.Stop(t.Context(), sessionID)
			}
			return err == nil && got.Reason == intent.ReasonStopped && w.Health().OK()
		}}
	},
	"api": func(t *testing.T, _, client *redis.Client) user {
		st := must(store.New(client, store.Options{}))(t)
		const secret = "0123456789abcdef0123456789abcdef"
		h := must(api.NewHandler(st, api.Config{Logger: zap.NewNop(), LeaseFirst: true,
			Tokens: []api.Token{api.NewToken("me", secret, intent.ScopeRead, intent.ScopeWrite)}}))(t)
		ask := func(method, path, body string) int {
			r := httptest.NewRequest(method, path, strings.NewReader(body))
			r.RemoteAddr = "127.0.0.1:1"
			r.Header.Set("Authorization", "Bearer "+secret)
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			id := regexp.MustCompile(`"sessionId":"([^"]+)"`).FindStringSubmatch(w.Body.String())
			if id != nil && strings.Contains(body, "start") {
				r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(`{"type":"stop","sessionId":"`+id[1]+`"}`))
				r.RemoteAddr, r.Header = "127.0.0.1:1", http.Header{"Authorization": {"Bearer " + secret}, "Content-Type": {"application/json"}}
				w = httptest.NewRecorder()
				h.ServeHTTP(w, r)
			}
			return w.Code
		}
		return user{func() error { return st.Ping(t.Context()) }, st.Close, func() bool {
			return ask(http.MethodPost, "/intents", `{"type":"start","resource":"1:0:1"}`) == http.StatusAccepted &&
				ask(http.MethodGet, "/sessions", "") == http.StatusOK && ask(http.MethodGet, "/readyz", "") == http.StatusOK
		}}
	},
}

// idle is a pipeline that runs until it is stopped.
type idle chan struct{}

func (idle) Start(context.Context, int64) error { return nil }
func (p idle) Wait() error                      { <-p; return nil }
func (p idle) Stop() {
	select {
	case p <- struct{}{}:
	default:
	}
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// A user without rights who pastes the line at the end of the first refusal has all necessary rights. The line is that of docs/redis.md.
func TestEmptyUserFollowsTheLine(t *testing.T) {
	docs, err := os.ReadFile("../docs/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	for kind, use := range users {
		t.Run(kind, func(t *testing.T) {
			server := redistest.Start(t)
			server.Do("ACL", "SETUSER", kind, "on", ">password")
			admin := server.Client()
			bootstrapAll(t, admin)
			client := redis.NewClient(&redis.Options{Addr: server.Addr(), Username: kind, Password: "password"})
			t.Cleanup(func() { _ = client.Close() })
			u := use(t, admin, client)
			err := u.start()
			_, line, ok := strings.Cut(errText(err), "ACL SETUSER "+kind+" ")
			line, _, _ = strings.Cut(line, "\n") // of the first of two
			if !ok || !strings.Contains(errText(err), "NOPERM") {
				t.Fatalf("an empty user: %v, want the line that grants what is missing", err)
			}
			paste(server, "ACL SETUSER "+kind+" "+line)
			_, said, _ := strings.Cut(string(docs), "ACL SETUSER "+kind+" on >password resetchannels ")
			if said, _, _ = strings.Cut(said, "\n"); said != line {
				t.Errorf("docs/redis.md has\n%s\nand Redis' refusal gives\n%s", said, line)
			}
			server.Do("ACL", "LOG", "RESET")
			if err := u.start(); err != nil {
				t.Fatalf("with the line pasted: %v", err)
			}
			redistest.Eventually(t, "what it is there for", u.works)
			if err := u.stop(); err != nil {
				t.Errorf("stop: %v", err)
			}
			if denied, _ := server.Do("ACL", "LOG").([]any); len(denied) > 0 {
				t.Errorf("Redis has denied %v", denied[0])
			}
		})
	}
}

// The lines of docs/redis.md create users with all rights for their work.
func TestUsersOfTheDocs(t *testing.T) {
	docs, err := os.ReadFile("../docs/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := regexp.MustCompile(`(?m)^ACL SETUSER (\S+) .*$`).FindAllStringSubmatch(string(docs), -1)
	if len(lines) != len(users) {
		t.Fatalf("docs/redis.md has %d lines for %d kinds", len(lines), len(users))
	}
	server := redistest.Start(t)
	for _, line := range lines {
		paste(server, line[0])
		if users[line[1]] == nil {
			t.Errorf("docs/redis.md knows a kind %s", line[1])
		}
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// paste runs a line as redis-cli does.
func paste(server *redistest.Server, line string) {
	var args []any
	for _, word := range strings.Fields(line) {
		args = append(args, word)
	}
	server.Do(args...)
}

// bootstrapAll declares the server new to leases, elections and intents.
func bootstrapAll(t *testing.T, operator *redis.Client) {
	t.Helper()
	leases := must(store.New(operator, store.Options{Leases: lease.Config{TTL: ttl, OpTimeout: ttl / 2}}))(t)
	defer leases.Close()
	keepers := lease.Config{TTL: ttl, OpTimeout: ttl / 2}
	for _, fleet := range []admin.Fleet{leases.Options().Leases, keepers, lease.ManagerConfig{Config: keepers}} {
		if err := admin.Bootstrap(t.Context(), operator, fleet); err != nil {
			t.Fatal(err)
		}
	}
	if err := admin.Bootstrap(t.Context(), operator, election.Config{LeaderTTL: ttl, OpTimeout: ttl / 2}); err != nil {
		t.Fatal(err)
	}
}
