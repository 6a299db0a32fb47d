// Package stream reads the replication stream of a Redis, which shows every grant of a lease or a fence.
package stream

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/real/host"
)

var errNoStream = errors.New("Redis gives no replication stream")

var errReplica = errors.New("it is a replica, or does not answer")

// Stream reads Redis's replication stream, which shows the effects of scripts in order and with absolute expiries. It reconnects after
// restarts. While the stream is down, grants are unknown.
type Stream struct {
	at    Server
	keys  *Keys
	clock *host.Clock
	add   func(history.Event)

	cancel context.CancelFunc
	done   chan struct{}

	mark       atomic.Pointer[mark] // end of the snapshot in the stream; nil: on hold
	disconnect atomic.Pointer[func()]

	up     chan struct{} // closed when the stream flows for the first time
	upOnce sync.Once
	err    error // why it never flowed; set before done is closed

	held   map[string]held  // session → its key as last set
	fences map[string]int64 // session → fence as last set, for increments
	gap    bool             // a change of a fence may be missing: fences that are not in the map may exist
	db     int
	reader reader
	stamps stamps
	skew   time.Duration // how far Redis's wall clock is ahead of this host's
}

// held is a key's value and its expiry; 0: none.
type held struct {
	holder string
	until  int64
	unread bool // both are unknown
}

// Patience is longer than the time that a server waits for further replicas (repl-diskless-sync-delay, 5 s by default).
const Patience = 20 * time.Second

// Channel carries the marks that join a snapshot to the stream, and those with Redis's time.
const Channel = "leasestorm:tap"

// timeMark begins a mark with Redis's time, in microseconds.
const timeMark = "time "

// markScript writes Redis's time to the stream: to the key KEYS[1] or, without one, to the channel ARGV[1].
const markScript = `
local t = redis.call('TIME')
local text = ARGV[2] .. t[1] .. string.format('%06d', t[2])
if KEYS[1] then
  redis.call('SET', KEYS[1], text)
else
  redis.call('PUBLISH', ARGV[1], text)
end`

// Server is the server that a stream follows.
type Server struct {
	Admin  *redis.Options
	Client func() *redis.Client
	// Master reports whether the server is one; nil: always. A replica forwards its master's stream, without a snapshot's mark.
	Master   func(context.Context) bool
	Attached func() // called after each attachment; may be nil
	Skewed   bool   // it may have another host's clock
	// Mark is the key for marks on a cluster's server, whose stream lacks published messages. "": marks are published.
	Mark string
}

// Open follows a server's stream until Close. add gets the events, from one goroutine.
func Open(at Server, k *Keys, c *host.Clock, add func(history.Event)) *Stream {
	ctx, cancel := context.WithCancel(context.Background())
	t := &Stream{
		at: at, keys: k, clock: c, add: add, cancel: cancel, done: make(chan struct{}), up: make(chan struct{}),
		held: map[string]held{}, fences: map[string]int64{},
	}
	go t.run(ctx)
	return t
}

// Wait returns nil once the stream flows, or why Redis provides none.
func (t *Stream) Wait(ctx context.Context) error {
	select {
	case <-t.up:
		return nil
	case <-t.done:
		return t.err
	case <-ctx.Done():
		return fmt.Errorf("%w: no answer", errNoStream)
	}
}

// Close ends the stream and waits for the last call of add.
func (t *Stream) Close() {
	t.cancel()
	<-t.done
}

func (t *Stream) run(ctx context.Context) {
	defer close(t.done)
	for {
		flowed, err := t.follow(ctx)
		if flowed && ctx.Err() == nil {
			t.gap = true
			t.add(history.Event{T: t.clock.Now(), Kind: history.TapDown, Reason: Brief(err)})
		}
		if no := refusal(""); errors.As(err, &no) && !host.Closed(t.up) && !transient(no) {
			t.err = fmt.Errorf("%w: %w", errNoStream, err)
			return
		}
		if !host.Sleep(ctx.Done(), 10*time.Millisecond) {
			return
		}
	}
}

type refusal string

func (r refusal) Error() string { return string(r) }

// RedisError implements redis.Error.
func (refusal) RedisError() {}

func transient(err error) bool {
	text := err.Error()
	return strings.HasPrefix(text, "LOADING") || strings.HasPrefix(text, "NOMASTERLINK") ||
		strings.HasPrefix(text, "MASTERDOWN") || strings.HasPrefix(text, "BUSY")
}

// Brief returns the begin of an error's text.
func Brief(err error) string {
	if err == nil {
		return ""
	}
	text := err.Error()
	return text[:min(len(text), 200)]
}

func (t *Stream) follow(ctx context.Context) (flowed bool, err error) {
	if t.at.Master != nil && !t.at.Master(ctx) {
		return false, errReplica
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, host.NetworkOf(t.at.Admin.Addr), t.at.Admin.Addr)
	if err != nil {
		return false, err
	}
	release := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer release()
	defer func() { _ = conn.Close() }()
	t.reader = reader{Conn: conn}
	in := bufio.NewReaderSize(&t.reader, 64<<10)
	if err := t.handshake(conn, in); err != nil {
		return false, err
	}
	if t.at.Attached != nil {
		t.at.Attached()
	}
	if err := skipSnapshot(in); err != nil {
		return false, err
	}
	if t.at.Skewed {
		t.skew = measureSkew(ctx, t.at.Client())
	}
	if err := t.reader.watch(t.clock.Now); err != nil {
		return false, err
	}
	acks := make(chan struct{})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(acks)
	wg.Go(func() { acknowledge(conn, acks) })
	wg.Go(func() { t.keepTime(ctx, acks) })
	lose := func() { _ = conn.Close() }
	t.disconnect.Store(&lose)
	wg.Go(func() { t.Report(ctx) })
	return t.stream(in)
}

func (t *Stream) handshake(conn net.Conn, in *bufio.Reader) error {
	_ = conn.SetDeadline(time.Now().Add(Patience))
	defer func() { _ = conn.SetDeadline(time.Time{}) }()
	commands := [][]string{
		{"REPLCONF", "listening-port", "0"}, {"REPLCONF", "capa", "eof", "capa", "psync2"}, {"PSYNC", "?", "-1"},
	}
	switch o := t.at.Admin; {
	case o.Username != "":
		commands = append([][]string{{"AUTH", o.Username, o.Password}}, commands...)
	case o.Password != "":
		commands = append([][]string{{"AUTH", o.Password}}, commands...)
	}
	for _, c := range commands {
		var b strings.Builder
		fmt.Fprintf(&b, "*%d\r\n", len(c))
		for _, w := range c {
			fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
		}
		if _, err := conn.Write([]byte(b.String())); err != nil {
			return err
		}
		line, err := readLine(in)
		for err == nil && len(line) == 0 {
			line, err = readLine(in)
		}
		if err != nil {
			return err
		}
		if line[0] == '-' {
			return refusal(line[1:])
		}
	}
	return nil
}

// measureSkew returns how far Redis's wall clock is ahead of this host's, by the quickest of five replies; 0 if within the uncertainty.
func measureSkew(ctx context.Context, client *redis.Client) time.Duration {
	var skew time.Duration
	best := time.Duration(1<<63 - 1)
	for range 5 {
		before := time.Now()
		there, err := client.Time(ctx).Result()
		took := time.Since(before)
		if err == nil && took < best {
			best, skew = took, there.Sub(before.Add(took/2))
		}
	}
	if skew.Abs() <= best {
		return 0
	}
	return skew
}

// acknowledge keeps the stream flowing: a master waits for an acknowledgement after its transfer, and drops a replica silent for a minute.
func acknowledge(conn net.Conn, stop <-chan struct{}) {
	ack := func() { _, _ = conn.Write([]byte("*3\r\n$8\r\nREPLCONF\r\n$3\r\nACK\r\n$1\r\n0\r\n")) }
	ack()
	host.Every(100*time.Millisecond, stop, ack)
}

// keepTime makes Redis write its time to the stream. If Redis does not answer, it executes no command that would need a time.
func (t *Stream) keepTime(ctx context.Context, stop <-chan struct{}) {
	host.Every(markEvery, stop, func() {
		if client := t.at.Client(); client != nil {
			timed, cancel := context.WithTimeout(ctx, markWithin)
			_ = client.Eval(timed, markScript, t.markKeys(), Channel, timeMark).Err()
			cancel()
		}
	})
}

func (t *Stream) markKeys() []string {
	if t.at.Mark == "" {
		return nil
	}
	return []string{t.at.Mark}
}

// stream reads commands until the connection ends, and reports whether the stream flowed.
func (t *Stream) stream(in *bufio.Reader) (flowed bool, err error) {
	var words [][]byte
	var recorded *mark
	for {
		if words, err = readCommand(in, words); err != nil {
			t.placed(t.clock.Now())
			return recorded != nil, err
		}
		if len(words) == 0 {
			continue
		}
		if recorded, err = t.take(words, recorded); err != nil {
			return false, err
		}
	}
}

// take handles the next command. recorded is the mark from which events are recorded, nil while none are. take
// returns it for the command after this one.
func (t *Stream) take(words [][]byte, recorded *mark) (*mark, error) {
	m, text := t.mark.Load(), t.marked(words)
	if now, ok := t.timeOf(text); ok {
		t.placed(now)
		return recorded, nil
	}
	if recorded != nil && m == recorded {
		t.command(words)
		return recorded, nil
	}
	if recorded != nil {
		t.placed(t.clock.Now())
		t.gap = true
		t.add(history.Event{T: t.clock.Now(), Kind: history.TapDown, Reason: "the slot of the leases moves"})
	}
	if strings.EqualFold(string(words[0]), "select") {
		t.command(words) // the snapshot does not contain the selected database
	}
	if m == nil || text != m.nonce {
		return nil, nil //nolint:nilnil // nothing is recorded yet
	}
	s, ok := awaitSnapshot(m.taken)
	if !ok {
		return nil, errors.New("no snapshot of the leases")
	}
	t.begin(s)
	return m, nil
}

func (t *Stream) marked(words [][]byte) string {
	if len(words) != 3 || string(words[1]) != cmp.Or(t.at.Mark, Channel) {
		return ""
	}
	return string(words[2])
}

// timeOf returns a mark's time on the run's clock.
func (t *Stream) timeOf(text string) (now int64, ok bool) {
	digits, ok := strings.CutPrefix(text, timeMark)
	us, err := strconv.ParseInt(digits, 10, 64)
	if !ok || err != nil {
		return 0, false
	}
	return t.clock.FromWall(us*int64(time.Microsecond), t.skew), true
}

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

// mark is the position of a snapshot in the stream. Later commands are reported.
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

// Hold stops reporting until the next Report.
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
