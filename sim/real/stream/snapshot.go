package stream

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/leasestorm/leasestorm/sim/history"
)

// snapshotScript reads all keys that match the patterns ARGV[3] and on. In the same step it writes the mark ARGV[2] to the key KEYS[1]
// or, without one, to the channel ARGV[1]. The snapshot therefore equals the stream up to the mark. Expiries are absolute, because the
// script may wait for its turn.
const snapshotScript = `
local out = {}
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for i = 3, #ARGV do
  for _, key in ipairs(redis.call('KEYS', ARGV[i])) do
    local kind, value = redis.call('TYPE', key).ok, nil
    if kind == 'string' then
      value = redis.call('GET', key)
    elseif kind == 'hash' then
      local r = redis.call('HMGET', key, 'state', 'reason')
      value = (r[1] or '') .. ' ' .. (r[2] or '')
    end
    if value then
      out[#out + 1] = key
      out[#out + 1] = value
      local left = redis.call('PTTL', key)
      out[#out + 1] = string.format('%.0f', left < 0 and left or now + left)
    end
  end
end
if KEYS[1] then
  redis.call('SET', KEYS[1], ARGV[2])
else
  redis.call('PUBLISH', ARGV[1], ARGV[2])
end
return out`

// mark joins a snapshot to the stream, which is reported from the mark on.
type mark struct {
	nonce string
	taken chan snapshot
}

// Report takes a snapshot of the leases. Reporting continues with it and the stream after its mark.
func (t *Stream) Report(ctx context.Context) {
	m := &mark{strconv.FormatInt(time.Now().UnixNano(), 36), make(chan snapshot, 1)}
	t.mark.Store(m)
	if s, err := t.takeSnapshot(ctx, m.nonce); err == nil {
		m.taken <- s
	} else if lose := t.disconnect.Load(); lose != nil {
		(*lose)() // run reconnects
	}
}

// Hold reports nothing until the next tell.
func (t *Stream) Hold() { t.mark.Store(nil) }

// snapshot is the epoch and all leases, heartbeats and fences at the moment of its mark.
type snapshot struct {
	at   int64    // time of the request, not later than the mark
	keys []string // key, value, expiry in ms of Redis's clock (negative: none); key, value, …
}

func (t *Stream) takeSnapshot(ctx context.Context, nonce string) (snapshot, error) {
	client := t.at.Client()
	if client == nil {
		return snapshot{}, errReplica
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	args := []any{Channel, nonce, t.keys.Epoch}
	for _, pattern := range t.keys.Patterns {
		args = append(args, pattern)
	}
	asked := t.clock.Now()
	keys, err := client.Eval(ctx, snapshotScript, t.markKeys(), args...).StringSlice()
	return snapshot{asked, keys}, err
}

func awaitSnapshot(marked <-chan snapshot) (snapshot, bool) {
	timer := time.NewTimer(5 * time.Second)
	defer timer.Stop()
	select {
	case s := <-marked:
		return s, true
	case <-timer.C:
		return snapshot{}, false
	}
}

// begin records that the stream is up, and all leases and heartbeats at the time of the request: the next commands may already be executed.
func (t *Stream) begin(s snapshot) {
	now := s.at
	t.stamps.since = max(t.stamps.since, now)
	clear(t.held)
	clear(t.fences)
	t.add(history.Event{T: now, Kind: history.TapUp})
	for i := 0; i+2 < len(s.keys); i += 3 {
		e := history.Event{T: now, Reason: "snapshot"}
		if !strings.HasPrefix(s.keys[i+2], "-") {
			e.Until = t.absolute(false, s.keys[i+2])
		}
		value := s.keys[i+1]
		switch kind, id := t.split([]byte(s.keys[i])); kind {
		case KeyLease:
			e.Kind, e.Session, e.Instance = history.RedisGranted, id, value
			t.held[id] = held{holder: value, until: e.Until}
			t.add(e)
		case KeyNode:
			e.Kind, e.Instance = history.RedisBeat, id
			t.add(e)
		case KeyFence:
			t.fences[id], _ = strconv.ParseInt(value, 10, 64)
		case KeyIdem:
			e.Kind, e.Session, e.Reason, e.N = history.RedisKeyed, value, id, 1
			t.held[id] = held{holder: value, until: e.Until}
			t.add(e)
		case KeyRecord:
			e.Kind, e.Session, e.Reason, e.N = history.RedisState, id, strings.TrimSpace(value), 1
			t.add(e)
		case keyEpoch:
			t.add(history.Event{T: now, Kind: history.RedisEpoch, N: 1, Reason: value})
		case KeyBus, KeyOther, keyKinds:
		}
	}
	t.upOnce.Do(func() { close(t.up) })
}
