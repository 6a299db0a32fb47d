package lease

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/leasestorm/leasestorm/internal/redistest"
)

// An owner whose connections break while no sentinel answers cannot find the master, which is well: the log and Health name the sentinels.
func TestMuteSentinelsAreToldLong(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for seconds")
	}
	server, _ := bootstrapped(t)
	sentinel := redistest.StartSentinel(t, server)
	client := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: redistest.MasterName, SentinelAddrs: []string{sentinel.Addr()}, MaxRetries: -1})
	t.Cleanup(func() { _ = client.Close() })
	entries, logs := observer.New(zap.InfoLevel)
	cfg := quick("a")
	cfg.Logger = zap.New(entries)
	k := startKeeper(t, client, cfg)
	h, err := k.Acquire(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	defer h.Drop()
	sentinel.Kill()
	server.Do("CLIENT", "KILL", "TYPE", "normal")
	named := "no sentinel answers: dial tcp " + sentinel.Addr()
	t.Cleanup(func() {
		for _, e := range logs.All() {
			t.Log(e.Message, e.ContextMap())
		}
	})
	eventually(t, "Health names the sentinel", func() bool {
		h := k.Health()
		return h.State == HealthSilent && strings.Contains(h.Reason, named)
	})
	eventually(t, "the log names the sentinel", func() bool {
		for _, e := range logs.All() {
			if text, ok := e.ContextMap()["error"].(string); ok && strings.Contains(text, named) {
				return true
			}
		}
		return false
	})
}
