package real

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/real/process"
)

// A program of Redis that the kernel kills, as it does without memory, says nothing of the nodes, though a later fault starts it again.
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
	cfg.TTL = time.Minute // a Redis that is silent for longer has no verdict either, and Docker tells of an end when it can
	killed := false
	cfg.Progress = func(p Progress) {
		if p.Phase == "storm" && !killed {
			killed = true
			victim.Kill() // past what would know of it
		}
	}
	_, err := Run(t.Context(), r, cfg, history.NewRecorder())
	if !errors.Is(err, ErrGone) || !strings.Contains(err.Error(), "dmesg") {
		t.Errorf("it ends with %v", err)
	}
}
