package poll

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/leasestorm/leasestorm/internal/inner"
	"github.com/leasestorm/leasestorm/internal/redistest"
	"github.com/leasestorm/leasestorm/lease"
)

// The documented form is accepted. Another spelling of isPaused is refused by name.
func TestDocumentedForm(t *testing.T) {
	for _, tt := range []struct {
		value  string
		paused bool
		want   string // part of the error, "" for none
	}{
		{`{"id":"x"}`, false, ""}, {`{"id":"x","isPaused":true}`, true, ""}, {`{"id":"x","isPaused":false}`, false, ""},
		{`{"id":"x","isPaused":null}`, false, ""}, {`{"id":"x","IsPaused":true}`, true, ""},
		{`{"id":"x","isPaused":true,"is_paused":false}`, true, ""}, {`{"id":"x","pausedAt":1,"state":{"paused":true}}`, false, ""},
		{`{"id":"x","is_paused":true}`, false, `"is_paused"`}, {`{"id":"x","is_paused":false}`, false, `"is_paused"`},
		{`{"id":"x","Paused":1}`, false, `"Paused"`}, {`{"id":"x","is-paused":true}`, false, `"is-paused"`},
		{`{"id":"x","isPaused":"no"}`, false, "isPaused"}, {`{"id":"y"}`, false, `its id is not`}, {`[]`, false, "not the JSON"},
		{`null`, false, `its id is not`},
	} {
		paused, err := DecodeSession("x", []byte(tt.value))
		if paused != tt.paused || (err != nil) != (tt.want != "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, %v; want %v and an error with %q", tt.value, paused, err, tt.paused, tt.want)
		}
	}
}

// The application's decoder reads sessions in its own form. A session is malformed if the decoder refuses it or panics.
func TestDecode(t *testing.T) {
	b := newBench(t)
	ctx := t.Context()
	b.client.Set(ctx, "session:"+id, "running", 0)
	b.client.Set(ctx, "session:11111111-2222-4333-8444-555555555555", "halted", 0)
	b.client.Set(ctx, "session:22222222-2222-4333-8444-555555555555", "what?", 0)
	b.client.Set(ctx, "session:33333333-2222-4333-8444-555555555555", "", 0)
	polls := make(chan string, 100)
	m := b.start(Config{
		Interval: 20 * time.Millisecond,
		Poll:     func(_ context.Context, s Session) error { polls <- s.ID; return nil },
		Decode: func(_ string, value []byte) (bool, error) {
			switch {
			case len(value) == 0:
				panic("empty")
			case bytes.HasSuffix(value, []byte("?")):
				return false, errors.New("nobody knows")
			}
			return bytes.Equal(value, []byte("halted")), nil
		},
	})
	if got := receive(t, "a poll", polls); got != id {
		t.Errorf("polled %s", got)
	}
	if h := m.Health(); !h.OK() || h.Skipped != 2 || !strings.Contains(h.String(), "nobody knows") || !strings.Contains(h.String(), "panicked") {
		t.Errorf("%v", h)
	}
	since := time.Now()
	b.client.Set(ctx, "session:"+id, "halted", 0)
	b.wait(lease.EventReleased, since)
}

// Sessions from Config.Sessions are polled, and Redis is not searched.
func TestSessionsFromElsewhere(t *testing.T) {
	b := newBench(t)
	const other = "11111111-2222-4333-8444-555555555555"
	b.server.Do("ACL", "SETUSER", "default", "resetkeys", "~poll:*", "~{poll:lease:*", "-type")
	polls := make(chan string, 100)
	m, err := New(b.client, lease.Config{TTL: ttl, OpTimeout: ttl / 2, Logger: zap.NewNop()}, Config{Sessions: func(context.Context) ([]string, error) {
		skipped := &inner.Skipped{}
		skipped.Skip("third: unreadable")
		return []string{other}, skipped
	}, Interval: time.Hour, Poll: func(_ context.Context, s Session) error { polls <- s.ID; return nil }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Stop() })
	if err := m.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := receive(t, "a poll", polls); got != other {
		t.Errorf("polled %s", got)
	}
	if h := m.Health(); !h.OK() || h.Skipped != 1 {
		t.Errorf("%v", h)
	}
}

func TestClusterSessions(t *testing.T) { // G8
	t.Parallel()
	server := redistest.Start(t, redistest.Cluster())
	client := server.ClusterClient()
	for i := range 20 {
		sid := fmt.Sprintf("%08x-0000-4000-8000-000000000000", i)
		client.Set(t.Context(), "session:"+sid, fmt.Sprintf(`{"id":%q}`, sid), 0)
	}
	client.LPush(t.Context(), "session:list", "x")
	s, err := newSessions(client, &Config{SessionPrefix: DefaultSessionPrefix, Decode: DecodeSession}, &lease.Config{Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	ids, err := s.list(t.Context())
	var skipped *inner.Skipped
	if !errors.As(err, &skipped) || skipped.Count != 1 || len(ids) != 20 {
		t.Errorf("%d sessions, %v; want 20, and the list named as malformed", len(ids), err)
	}
	server.Do("ACL", "SETUSER", "default", "-get")
	if ids, err := s.list(t.Context()); err == nil || errors.As(err, &skipped) {
		t.Errorf("%d sessions, %v; none that was not read is known to be malformed, or gone (G8)", len(ids), err)
	}
}

// However many sessions there are, an instance reads a thousand with one command.
func TestSessionsAreReadTogether(t *testing.T) { // G14
	t.Parallel()
	server := redistest.Start(t)
	for i := range 100 {
		sid := fmt.Sprintf("%08x-0000-4000-8000-000000000000", i)
		server.Do("SET", DefaultSessionPrefix+sid, fmt.Sprintf(`{"id":%q}`, sid))
	}
	s, err := newSessions(server.Client(), &Config{SessionPrefix: DefaultSessionPrefix, Decode: DecodeSession}, &lease.Config{Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	if ids, err := s.list(t.Context()); err != nil || len(ids) != 100 {
		t.Errorf("%d sessions, %v; want 100", len(ids), err)
	}
	sent := server.Do("INFO", "commandstats").(string)
	if !strings.Contains(sent, "cmdstat_mget:calls=1,") || strings.Contains(sent, "cmdstat_get:") {
		t.Errorf("Redis executed\n%s, want one MGET and no GET", sent)
	}
}

// rewriting sends a command of the application after each MGET.
type rewriting struct{ then func() }

func (rewriting) DialHook(next redis.DialHook) redis.DialHook { return next }

func (r rewriting) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if cmd.Name() == "mget" {
			r.then()
		}
		return err
	}
}

func (rewriting) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// If the application empties or deletes a session and writes it again, the session is read again before it counts as malformed.
func TestRewrittenSessionIsNotMalformed(t *testing.T) { // G8
	t.Parallel()
	server := redistest.Start(t)
	const cleared, deleted = "11111111-2222-4333-8444-555555555555", "22222222-2222-4333-8444-555555555555"
	write := func(sid string) { server.Do("SET", DefaultSessionPrefix+sid, fmt.Sprintf(`{"id":%q}`, sid)) }
	server.Do("SET", DefaultSessionPrefix+cleared, "")
	server.Do("HSET", DefaultSessionPrefix+deleted, "a", "b")
	again := func() { server.Do("DEL", DefaultSessionPrefix+deleted); write(deleted); write(cleared) }
	s, err := newSessions(server.Client(), &Config{SessionPrefix: DefaultSessionPrefix, Decode: DecodeSession},
		&lease.Config{Logger: zap.NewNop(), Hooks: []redis.Hook{rewriting{again}}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	if ids, err := s.list(t.Context()); err != nil || len(ids) != 2 {
		t.Errorf("%d sessions, %v; want 2 and none malformed", len(ids), err)
	}
}

// A session longer than MaxSession is malformed and does not hide others.
func TestSessionTooLongToRead(t *testing.T) { // G8
	t.Parallel()
	server := redistest.Start(t)
	const longest = "ffffffff-0000-4000-8000-000000000000"
	text := fmt.Sprintf(`{"id":%q}`, longest)
	server.Do("SET", DefaultSessionPrefix+longest, text+strings.Repeat(" ", MaxSession-len(text)))
	server.Do("SET", DefaultSessionPrefix+"beyond", strings.Repeat("x", MaxSession+1))
	s, err := newSessions(server.Client(), &Config{SessionPrefix: DefaultSessionPrefix, Decode: DecodeSession}, &lease.Config{Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	ids, err := s.list(t.Context())
	var skipped *inner.Skipped
	if !errors.As(err, &skipped) || skipped.Count != 1 || len(ids) != 1 || !strings.Contains(err.Error(), "65536 bytes") {
		t.Errorf("%d sessions, %v; want one, and one named as malformed", len(ids), err)
	}
}

// A key with a new type is judged again, even if neither value has a text.
func TestEmptyAndForeignKeys(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, err := newSessions(server.Client(), &Config{SessionPrefix: DefaultSessionPrefix, NamedSessions: true,
		Decode: func(string, []byte) (bool, error) { return false, nil }}, &lease.Config{Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	const key = DefaultSessionPrefix + "a"
	for _, step := range []struct {
		command      []any
		ids, skipped int
	}{{[]any{"LPUSH", key, "x"}, 0, 1}, {[]any{"SET", key, ""}, 1, 0}, {[]any{"DEL", key}, 0, 0}, {[]any{"LPUSH", key, "x"}, 0, 1}} {
		server.Do(step.command...)
		ids, err := s.list(t.Context())
		var malformed *inner.Skipped
		if errors.As(err, &malformed) != (step.skipped > 0) || len(ids) != step.ids {
			t.Errorf("after %v: %v, %v", step.command, ids, err)
		}
	}
}

// Behind Sentinel, sessions are read from the master, also after a failover.
func TestSessionsBehindSentinelLong(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for a failover")
	}
	t.Parallel()
	r := redistest.StartReplicated(t)
	name := func(n int) string { return fmt.Sprintf("%08x-0000-4000-8000-000000000000", n) }
	put := func(to *redistest.Server, n int) {
		to.Do("SET", DefaultSessionPrefix+name(n), fmt.Sprintf(`{"id":%q}`, name(n)))
	}
	put(r.Servers[0], 1)
	s, err := newSessions(r.Client(), &Config{SessionPrefix: DefaultSessionPrefix, Decode: DecodeSession}, &lease.Config{Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	if ids, err := s.list(t.Context()); err != nil || len(ids) != 1 || ids[0] != name(1) {
		t.Fatalf("%v, %v; want %s", ids, err, name(1))
	}
	put(r.Failover(), 2)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for ids := []string(nil); len(ids) < 2; {
		if ids, err = s.list(ctx); ctx.Err() != nil {
			t.Fatalf("%v, %v; want the one that the new master has too", ids, err)
		}
	}
}
