package real

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"

	"github.com/leasestorm/leasestorm/internal/sessionid"
	"github.com/leasestorm/leasestorm/sim/client"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/protocol"
	"github.com/leasestorm/leasestorm/sim/real/stream"
)

const (
	systemPolling  = "polling"
	systemElection = "election"
)

var systems = map[string]*system{
	systemPolling: pollingSystem(protocol.Polling),
	systemElection: {
		Keys: stream.Keys{
			Epoch: protocol.ElectionEpoch, Patterns: []string{leaderKey, protocol.ElectionBeats + "*", "{" + leaderKey + "}*"}, Split: splitElection,
		},
		lease: leaderKey,
		beats: protocol.ElectionBeats,
		env:   electionEnv,
	},
	systemIntents: intentsSystem,
}

// clusterTag is the hash tag that puts all keys of a storm on a Redis Cluster in one slot.
const clusterTag = "{poll}"

// clusteredPolling has the prefix of leases for its fences, too.
var clusteredPolling = pollingSystem(protocol.Keys{
	Sessions: clusterTag + ":session:", Leases: clusterTag + ":lease:", Beats: clusterTag + ":node:", Epoch: clusterTag + ":epoch",
	Fence: clusterTag + ":lease:", FenceEnd: ":fence",
})

// runPatterns match all keys of runs of any system: sessions, leases, heartbeats, fences and the epoch.
var runPatterns = []string{"session:*", "poll:*", "{poll:*", "sovereign:*", "{sovereign:*", "lease:*", "{lease:*", "v3:*"}

// leaderKey is the lease of an election, and its name in a history.
const leaderKey = "sovereign:leader"

// fenceSuffix ends the key of a fence: "{", the lease's key, fenceSuffix.
const fenceSuffix = "}:fence"

// splitBy recognizes leases and heartbeats by prefix, and fences by prefix and suffix. Libraries may write more before a session's ID,
// such as the 0 in rueidislock's "poll:lease:0:<id>".
func splitBy(lease, node, fence, end string) func([]byte) (stream.Kind, string) {
	leasePrefix, nodePrefix, fencePrefix, fenceEnd := []byte(lease), []byte(node), []byte(fence), []byte(end)
	return func(key []byte) (stream.Kind, string) {
		if id, ok := bytes.CutPrefix(key, fencePrefix); ok {
			if id, ok = bytes.CutSuffix(id, fenceEnd); ok {
				return stream.KeyFence, string(id)
			}
		}
		if id, ok := bytes.CutPrefix(key, leasePrefix); ok {
			if colon := bytes.LastIndexByte(id, ':'); colon >= 0 && sessionid.Valid(string(id[colon+1:])) {
				id = id[colon+1:]
			}
			return stream.KeyLease, string(id)
		}
		if id, ok := bytes.CutPrefix(key, nodePrefix); ok {
			return stream.KeyNode, string(id)
		}
		return stream.KeyOther, ""
	}
}

func splitElection(key []byte) (stream.Kind, string) {
	switch text := string(key); {
	case text == leaderKey:
		return stream.KeyLease, leaderKey
	case text == "{"+leaderKey+fenceSuffix:
		return stream.KeyFence, leaderKey
	case strings.HasPrefix(text, protocol.ElectionBeats):
		return stream.KeyNode, strings.TrimPrefix(text, protocol.ElectionBeats)
	}
	return stream.KeyOther, ""
}

// pollingSystem returns the polling system with these keys.
func pollingSystem(k protocol.Keys) *system {
	patterns := []string{k.Leases + "*", k.Beats + "*"}
	if k.Fence != k.Leases {
		patterns = append(patterns, k.Fence+"*")
	}
	return &system{
		Keys:     stream.Keys{Epoch: k.Epoch, Patterns: patterns, Split: splitBy(k.Leases, k.Beats, k.Fence, k.FenceEnd)},
		sessions: k.Sessions, prefix: k.Leases, tagged: k.Fence == k.Leases,
		env: func(*slot) []string { return k.Environment() },
	}
}

func electionEnv(s *slot) []string { return protocol.Election(leaderKey, s.run.cfg.TTL) }

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

func (s *slot) serves() bool { return s.run.system.clients && s.run.role(s.name) != "worker" }
