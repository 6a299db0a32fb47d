package real

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"

	"github.com/leasestorm/leasestorm/sim/client"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/real/host"
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
	epochKey: intentEpoch,
	tapped:   []string{"lease:service:*", "lease:tuner:*", "{lease:*", intentIdem + "*", intentRecord + "*"},
	prefix:   intentLease,
	split:    splitIntents,
	env:      intentsEnv,
	clients:  true,
}

func splitIntents(key []byte) (keyKind, string) {
	text := string(key)
	if id, ok := strings.CutPrefix(text, intentLease); ok && (strings.HasPrefix(id, "service:") || strings.HasPrefix(id, "tuner:")) {
		return keyLease, id
	}
	if id, ok := strings.CutPrefix(text, "{"+intentLease); ok {
		if id, ok = strings.CutSuffix(id, fenceSuffix); ok {
			return keyFence, id
		}
	}
	if id, ok := strings.CutPrefix(text, intentIdem); ok {
		return keyIdem, id
	}
	if id, ok := strings.CutPrefix(text, intentRecord); ok {
		return keyRecord, id
	}
	if text == intentBus {
		return keyBus, ""
	}
	return keyOther, ""
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

// written records a change of a session's record. One HSET writes its state and its reason.
func (t *tap) written(id string, fields [][]byte) {
	var state, reason, fence string
	for i := 0; i+1 < len(fields); i += 2 {
		switch string(fields[i]) {
		case "state":
			state = string(fields[i+1])
		case "reason":
			reason = string(fields[i+1])
		case "fence":
			fence = string(fields[i+1])
		}
	}
	if state == "" {
		return
	}
	n, _ := strconv.ParseInt(fence, 10, 64)
	t.show(keyRecord, 0, history.Event{
		Kind: history.RedisState, Session: id, Fence: n, Reason: strings.TrimSpace(state + " " + reason),
	})
}

// published records an entry of the bus: XADD key [options] ID field value …
func (t *tap) published(args [][]byte) {
	i := 1
	for i < len(args) && !bytes.ContainsRune(args[i], '-') { // an ID has a dash, options have none
		i++
	}
	var session, kind string
	for i++; i+1 < len(args); i += 2 {
		switch string(args[i]) {
		case "session":
			session = string(args[i+1])
		case "type":
			kind = string(args[i+1])
		}
	}
	if session != "" {
		t.show(keyBus, 0, history.Event{Kind: history.RedisIntent, Session: session, Reason: kind})
	}
}
