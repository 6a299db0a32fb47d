package real

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"

	"github.com/leasestorm/leasestorm/sim/client"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/real/host"
	"github.com/leasestorm/leasestorm/sim/real/stream"
)

// systemIntents is the system of intents and workers (ADR-003).
const systemIntents = "intents"

const (
	intentLease  = "lease:"
	intentEpoch  = "v3:epoch"
	intentIdem   = "v3:idem:"
	intentRecord = "v3:session:"
	intentBus    = "v3:bus"
)

var intentsSystem = &system{
	Keys: stream.Keys{
		Epoch:    intentEpoch,
		Patterns: []string{"lease:service:*", "lease:tuner:*", "{lease:*", intentIdem + "*", intentRecord + "*"},
		Split:    splitIntents,
	},
	prefix:  intentLease,
	env:     intentsEnv,
	clients: true,
}

func splitIntents(key []byte) (stream.Kind, string) {
	text := string(key)
	if id, ok := strings.CutPrefix(text, intentLease); ok && (strings.HasPrefix(id, "service:") || strings.HasPrefix(id, "tuner:")) {
		return stream.KeyLease, id
	}
	if id, ok := strings.CutPrefix(text, "{"+intentLease); ok {
		if id, ok = strings.CutSuffix(id, fenceSuffix); ok {
			return stream.KeyFence, id
		}
	}
	if id, ok := strings.CutPrefix(text, intentIdem); ok {
		return stream.KeyIdem, id
	}
	if id, ok := strings.CutPrefix(text, intentRecord); ok {
		return stream.KeyRecord, id
	}
	if text == intentBus {
		return stream.KeyBus, ""
	}
	return stream.KeyOther, ""
}

// role returns the role of a slot. Three slots have two APIs and two workers; in a smaller fleet each slot is both.
func (r *run) role(name string) string {
	i, ok := fault.NodeIndex(name)
	if !ok || r.cfg.Nodes < 3 {
		return "both"
	}
	return []string{"both", "api", "worker"}[i%3]
}

func intentsEnv(s *slot) []string {
	c := &s.run.cfg
	hash := func(token string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(token))) }
	env := []string{
		"LEASESTORM_ROLE=" + s.run.role(s.name), "LEASESTORM_TUNERS=" + strconv.Itoa(c.Tuners),
		"LEASESTORM_TOKENS=writer sha256:" + hash(client.WriteToken) + " v3:write,v3:read; reader sha256:" + hash(client.ReadToken) + " v3:read",
		"LEASESTORM_START_RATE=0", "LEASESTORM_BACKLOG=0", // no limits, because all clients share one token
	}
	if i, ok := fault.NodeIndex(s.name); ok && c.Phase1 != nil && c.Phase1(i) {
		env = append(env, "LEASESTORM_API_LEASES=true")
	}
	if s.serves() {
		env = append(env, "LEASESTORM_API_ADDR="+s.api)
	}
	return env
}

// seized ends the run if another process listens on the address of the slot's API, because the node then could not start.
func (s *slot) seized(n *node) {
	if !s.serves() || n.wasReady() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.node != n { // its successor may listen there
		return
	}
	l, err := net.Listen("tcp", s.api)
	if err == nil {
		_ = l.Close()
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		s.run.starve(fmt.Errorf("%w: somebody listens on %s, where the API of %s was until its node went down: look who (ss -ltnp)",
			host.ErrNoVerdict, s.api, s.name))
	}
}
