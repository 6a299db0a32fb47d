package lease

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/internal/redistest"
)

// timed is quick with another TTL.
func timed(id string, ttl time.Duration) Config {
	return Config{InstanceID: id, TTL: ttl, OpTimeout: ttl / 2}
}

// storeOf is the store of a fleet, as in package admin, which tests inside this package cannot import.
type fleet interface {
	Shared() (redisstore.Options, []string, error)
}

func storeOf(t testing.TB, client redis.UniversalClient, cfg fleet) *redisstore.Store {
	t.Helper()
	options, _, err := cfg.Shared()
	if err != nil {
		t.Fatal(err)
	}
	st, err := redisstore.New(client, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	return st
}

func setQuarantine(t *testing.T, c redis.UniversalClient, length, before time.Duration) {
	t.Helper()
	if got, err := storeOf(t, c, Config{}).SetQuarantine(t.Context(), length); err != nil || got != before {
		t.Fatalf("SetQuarantine = %v, %v; want what it was, %v", got, err, before)
	}
}

// An instance whose TTL exceeds its group's quarantine is refused, with both values and the remedy.
func TestLongerTTLIsRefusedAtStart(t *testing.T) { // G1
	_, client := bootstrapped(t) // its group has agreed on three seconds
	k, err := NewKeeper(client, timed("long", 10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	err = k.Start(t.Context())
	if !errors.Is(err, errQuarantineTooShort) {
		t.Fatalf("Start = %v, want errQuarantineTooShort", err)
	}
	for _, said := range []string{"10s", "3s", "lease:epoch:group", "leasectl quarantine 10s"} {
		if !strings.Contains(err.Error(), said) {
			t.Errorf("%q does not say %q", err, said)
		}
	}
	if err := k.Stop(); err != nil {
		t.Error(err)
	}
}

// If Redis is away at the start, the first answer reveals such a TTL: the instance is granted nothing, and Health says why. Once the group
// has agreed on more, it takes part.
func TestLongerTTLIsFoundOutWithTheFirstAnswer(t *testing.T) { // G1
	server, client := bootstrappedFor(t, timed("", time.Second))
	server.Freeze()
	k := startKeeper(t, client, timed("long", 2*time.Second))
	server.Thaw()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	_, err := k.Acquire(ctx, "mine")
	if !errors.Is(err, errQuarantineTooShort) {
		t.Fatalf("Acquire = %v, want errQuarantineTooShort", err)
	}
	if h := k.Health(); h.State != HealthDisagrees || h.OK() || !errors.Is(h.Error(), errQuarantineTooShort) {
		t.Fatalf("Health = %v", h)
	}
	setQuarantine(t, client, 2*time.Second, time.Second)
	if _, err := k.Acquire(t.Context(), "mine"); err != nil {
		t.Fatalf("in a group of 2 s: %v", err)
	}
	if h := k.Health(); !h.OK() {
		t.Errorf("Health = %v", h)
	}
}

// A fleet gets a longer TTL: the quarantine is raised, which costs living owners nothing, and the instances are replaced one by one. A
// flush in between gives nobody a second owner. Then the fleet gets a shorter TTL again.
func TestFleetChangesItsTTLLong(t *testing.T) { // G1, G9
	if testing.Short() {
		t.Skip("it waits for seconds")
	}
	t.Parallel()
	server, client := bootstrapped(t)
	old := startKeeper(t, client, quick("old"))
	h, err := old.Acquire(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	setQuarantine(t, client, 6*time.Second, 3*time.Second)
	next := startKeeper(t, client, timed("next", 6*time.Second))
	held, err := next.Acquire(t.Context(), "job-of-next")
	if err != nil {
		t.Fatal(err)
	}
	if !h.Valid() {
		t.Fatal("the old owner lost its lease when the quarantine was raised")
	}
	// The owner with the longer TTL does not assert its lease again, and trusts it to the end.
	until, _ := held.Deadline()
	innerLease{held}.Abandon()
	server.Flush()
	taken, err := old.Acquire(t.Context(), "job-of-next")
	if err != nil {
		t.Fatal(err)
	}
	if early := time.Until(until); early > 0 {
		t.Errorf("granted %v before the owner of a longer TTL would have ceased to believe", early)
	}
	if _, err := storeOf(t, client, Config{}).SetQuarantine(t.Context(), 500*time.Millisecond); err == nil {
		t.Error("lowered below a TTL of 3 s that is in use")
	}
	if err := next.Stop(); err != nil {
		t.Error(err)
	}
	setQuarantine(t, client, 3*time.Second, 6*time.Second)
	if !taken.Valid() {
		t.Error("a living owner lost its lease when the quarantine was lowered")
	}
}

// After a loss of data, an instance with a shorter TTL that does not know the group may begin the epoch. Instances that know the group do
// not trust it.
func TestStrangerBeginsTheEpoch(t *testing.T) { // G1
	server := redistest.Start(t)
	client := server.Client()
	if err := storeOf(t, client, timed("", 3*time.Second)).Bootstrap(t.Context()); err != nil {
		t.Fatal(err)
	}
	member := startKeeper(t, client, timed("member", 3*time.Second))
	h, err := member.Acquire(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	server.Flush()
	stranger := startKeeper(t, client, timed("stranger", 300*time.Millisecond))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for ctx.Err() == nil && client.HGet(ctx, "lease:epoch:group", "quarantine").Val() != "3000000" {
		_, _ = stranger.TryAcquire(ctx, "other")
	}
	if err := ctx.Err(); err != nil {
		t.Fatal("the group's quarantine was not restored:", err)
	}
	if h.over() {
		t.Error("the member lost its lease")
	}
}
