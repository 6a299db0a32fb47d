package lease

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/leasestorm/leasestorm/internal/redisstore"
)

// A surplus replica that attaches itself to a running instance's master is reported within a TTL: by the log once, and by Health as long as
// it lasts. A failed check changes nothing.
func TestReplicasTooManyAreTold(t *testing.T) { // G1
	synctest.Test(t, func(t *testing.T) {
		entries, logs := observer.New(zap.InfoLevel)
		g := newRig(t, newFakeRedis(), "a", true, func(c *ManagerConfig) { c.Logger, c.Replicas = zap.New(entries), 2 })
		told := func(event string) int { return logs.FilterField(zap.String("event", event)).Len() }
		for _, tt := range []struct {
			answer     error
			what       string
			begun, end int
			health     bool
		}{
			{nil, "as configured", 0, 0, false},
			{errors.New("no answer"), "not known", 0, 0, false},
			{redisstore.ErrReplicas, "too many", 1, 0, true},
			{redisstore.ErrReplicas, "still too many", 1, 0, true},
			{errors.New("no answer"), "not known any more", 1, 0, true},
			{nil, "as configured again", 1, 1, false},
		} {
			g.fake.tooMany(tt.answer)
			pass(g.cfg.TTL)
			synctest.Wait()
			h := g.diagnosis.health()
			if !h.OK() || strings.Contains(h.Reason, redisstore.ErrReplicas.Error()) != tt.health || h.Surplus != tt.health {
				t.Errorf("%s: %v", tt.what, h)
			}
			if told("replicasSurplus") != tt.begun || told("replicasFit") != tt.end {
				t.Errorf("%s: %d entries of its beginning, %d of its end", tt.what, told("replicasSurplus"), told("replicasFit"))
			}
		}
	})
}
