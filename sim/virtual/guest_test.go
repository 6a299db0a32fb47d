package virtual

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/guest"
	"github.com/leasestorm/leasestorm/sim/history"
)

// naive is a lock as many write it: SET NX PX, then PEXPIRE, whose answers it does not read. It polls as long as it runs.
type naive struct {
	h        guest.Host
	id, key  string
	ttl      int64 // ms
	read     [3]string
	due      int64
	acquired bool
	stop     bool
}

const (
	toRedis  = 1
	toTarget = 2

	toSentinel = 3

	guestRedis    = "10.0.0.1:6379"
	guestSentinel = "10.0.0.1:26379"
)

func newNaive(env []string, h guest.Host) guest.Program {
	n := &naive{h: h}
	for _, v := range env {
		if ms, ok := strings.CutPrefix(v, "LEASESTORM_TTL_MS="); ok {
			_, _ = fmt.Sscan(ms, &n.ttl)
		}
	}
	n.id = fmt.Sprint("naive-", len(env), "-", now(h))
	h.Dial(toRedis, guestRedis)
	h.Dial(toTarget, guestTarget)
	h.Print(2, []byte("started\n"))
	return n
}

func now(h guest.Host) int64 {
	mono, _ := h.Clock()
	return mono
}

func (n *naive) Run() guest.State {
	if n.stop {
		n.say("stopped", "")
		return guest.State{Exited: true}
	}
	if _, body, ok := strings.Cut(n.read[toTarget], "\r\n\r\n"); ok && n.key == "" {
		var ids []string
		if json.Unmarshal([]byte(body), &ids) == nil && len(ids) > 0 {
			n.key = ids[0]
			n.say("ready", "")
		}
	}
	if strings.Contains(n.read[toRedis], "+OK") && !n.acquired {
		n.acquired = true
		n.say("acquired", n.key)
	}
	if at := now(n.h); at >= n.due && n.key != "" {
		n.due = at + int64(200*time.Millisecond)
		if n.acquired {
			n.send("PEXPIRE", "poll:lease:"+n.key, fmt.Sprint(n.ttl))
			n.say("pollStart", n.key)
			n.h.Write(toTarget, fmt.Appendf(nil, "POST /poll/%s HTTP/1.1\r\nHost: t\r\nX-Instance: %s\r\n\r\n", n.key, n.id))
		} else {
			n.send("SET", "poll:lease:"+n.key, n.id, "NX", "PX", fmt.Sprint(n.ttl))
		}
	}
	return guest.State{Next: n.due}
}

func (n *naive) say(event, session string) {
	n.h.Print(1, fmt.Appendf(nil, "{\"event\":%q,\"instance\":%q,\"session\":%q,\"t\":%d}\n", event, n.id, session, now(n.h)))
}

func (n *naive) send(words ...string) {
	text := fmt.Sprintf("*%d\r\n", len(words))
	for _, w := range words {
		text += fmt.Sprintf("$%d\r\n%s\r\n", len(w), w)
	}
	n.h.Write(toRedis, []byte(text))
}

func (n *naive) Connected(conn int32, failure string) {
	switch {
	case failure != "":
		n.HangUp(conn, true)
	case conn == toTarget && n.key == "":
		n.h.Write(toTarget, []byte("GET /sessions HTTP/1.1\r\nHost: t\r\n\r\n"))
	}
}

func (n *naive) Deliver(conn int32, p []byte) { n.read[conn] = string(p) }
func (n *naive) Signal()                      { n.stop = true }
func (n *naive) Kill()                        {}

func (n *naive) HangUp(conn int32, _ bool) {
	n.h.Close(conn)
	n.h.Dial(conn, []string{toRedis: guestRedis, toTarget: guestTarget}[conn])
}

// An unmodified program is stormed and judged like an instance of the library. A lock that never looks has two owners after a silence.
func TestGuests(t *testing.T) {
	cfg := Config{
		Nodes: 3, Sessions: 1, TTL: 3 * time.Second, Poll: 200 * time.Millisecond, Storm: 30 * time.Second, Calm: 10 * time.Second,
		Guest: newNaive,
	}
	owner := fault.OwnerTarget(fault.SessionTarget(1))
	for name, test := range map[string]struct {
		plan []fault.Fault
		want check.Outcome
	}{
		"no fault": {nil, check.Unknown},
		"silence":  {[]fault.Fault{{At: 5 * time.Second, Kind: fault.BlackHole, Target: owner, For: 20 * time.Second}}, check.Fail},
		"freeze":   {[]fault.Fault{{At: 5 * time.Second, Kind: fault.Freeze, Target: owner, For: 10 * time.Second}}, check.Fail},
		"cut":      {[]fault.Fault{{At: 5 * time.Second, Kind: fault.Cut, Target: owner, For: 10 * time.Second}}, check.Fail},
		"stop":     {[]fault.Fault{{At: 5 * time.Second, Kind: fault.Terminate, Target: owner, For: time.Second}}, check.Pass},
		"crash":    {[]fault.Fault{{At: 5 * time.Second, Kind: fault.Crash, Target: owner, For: time.Second}}, check.Pass},
	} {
		t.Run(name, func(t *testing.T) {
			plan := fault.Plan{Version: 1, Faults: test.plan}
			var sums [2]string
			for i := range sums {
				var events []history.Event
				logged := 0
				c := cfg
				if c.Output = func(string, []byte) { logged++ }; i > 0 {
					c.Output, logged = nil, 3 // which changes nothing else
				}
				sum := history.NewSum()
				out, err := Run(c, plan, 1, func(e history.Event) {
					sum.Add(&e)
					events = append(events, e)
				})
				if err != nil || out.Fell != "" || len(out.Skipped) > 0 || logged < 3 || out.Ready < 3 {
					t.Fatalf("%v %s %v, %d logs", err, out.Fell, out.Skipped, logged)
				}
				p := params(c, plan)
				p.Foreign = true
				r, err := check.Judge(p, inOrder(events), nil)
				if err != nil {
					t.Fatal(err)
				}
				v, _ := r.Verdict("G1")
				if v.Verdict != test.want || r.Stats.Polls < 100 || r.Stats.Acquires < 1 {
					t.Errorf("G1 is %s: %s; %+v", v.Verdict, v.Detail, r.Stats)
				}
				sums[i] = sum.String()
			}
			if sums[0] != sums[1] {
				t.Error("two equal runs differ")
			}
		})
	}
}

// seeker asks a sentinel for the master, and listens whether it changes.
type seeker struct {
	*naive
	at string // address of the master
}

func newSeeker(env []string, h guest.Host) guest.Program {
	s := &seeker{naive: newNaive(env, h).(*naive)}
	s.HangUp(toRedis, true)
	return s
}

func (s *seeker) Connected(conn int32, failure string) {
	switch {
	case failure != "":
		s.HangUp(conn, true)
	case conn == toSentinel:
		s.h.Write(conn, []byte("SENTINEL GET-MASTER-ADDR-BY-NAME storm\r\nSUBSCRIBE +switch-master\r\n"))
	default:
		s.naive.Connected(conn, failure)
	}
}

func (s *seeker) Deliver(conn int32, p []byte) {
	if conn != toSentinel {
		s.naive.Deliver(conn, p)
		return
	}
	words := strings.Fields(string(p))
	addr := words[2] + ":" + words[4]
	if n := len(words); words[2] == "message" {
		addr = words[n-2] + ":" + words[n-1]
	}
	if addr != s.at {
		s.at = addr
		s.h.Close(toRedis)
		s.h.Dial(toRedis, addr)
	}
}

func (s *seeker) HangUp(conn int32, reset bool) {
	if conn == toTarget {
		s.naive.HangUp(conn, reset)
		return
	}
	if conn == toRedis {
		s.at = ""
		s.h.Close(conn)
	}
	s.h.Close(toSentinel)
	s.h.Dial(toSentinel, guestSentinel)
}

// An owner keeps its lock through a failover of which it learns. While an old master lives on for it, another one acquires the lock.
func TestGuestsWithSentinels(t *testing.T) {
	for name, test := range map[string]struct {
		plan     fault.Fault
		want     check.Outcome
		acquires int64
	}{
		"failover":   {fault.Fault{Kind: fault.Failover}, check.Unknown, 1},
		"outage":     {fault.Fault{Kind: fault.RedisOutage, For: 10 * time.Second}, check.Unknown, 1},
		"old master": {fault.Fault{Kind: fault.MasterCut, Target: fault.Owner, For: 15 * time.Second}, check.Fail, 2},
	} {
		t.Run(name, func(t *testing.T) {
			test.plan.At = 5 * time.Second
			plan := fault.Plan{Version: 1, Faults: []fault.Fault{test.plan}}
			cfg := Config{
				Nodes: 3, Sessions: 1, TTL: 3 * time.Second, Poll: 200 * time.Millisecond, Storm: 30 * time.Second, Calm: 10 * time.Second,
				Guest: newSeeker, Sentinel: true,
			}
			var events []history.Event
			out, err := Run(cfg, plan, 1, func(e history.Event) { events = append(events, e) })
			if err != nil || out.Fell != "" || len(out.Skipped) > 0 {
				t.Fatal(err, out.Fell, out.Skipped)
			}
			p := params(cfg, plan)
			p.Foreign = true
			r, err := check.Judge(p, inOrder(events), nil)
			if err != nil {
				t.Fatal(err)
			}
			if v, _ := r.Verdict("G1"); v.Verdict != test.want || r.Stats.Polls < 180 || r.Stats.Acquires != test.acquires {
				t.Errorf("G1 is %s: %s; %+v", v.Verdict, v.Detail, r.Stats)
			}
		})
	}
}

// asker sends a command whenever it is connected. "" stands for the key of the epoch.
type asker struct {
	naive
	at   string
	ask  []string
	said string // to the last command
}

func (a *asker) Run() guest.State             { return guest.State{} }
func (a *asker) Connected(_ int32, _ string)  { a.send(a.ask...) }
func (a *asker) Deliver(_ int32, said []byte) { a.said = string(said) }

func (a *asker) start(env []string, h guest.Host) guest.Program {
	for _, v := range env {
		if key, ok := strings.CutPrefix(v, "LEASESTORM_EPOCH_KEY="); ok && a.ask[1] == "" {
			a.ask[1] = key
		}
	}
	a.h = h
	h.Dial(toRedis, a.at)
	return a
}

// The epoch of an election is at the key that its members are told, so a bootstrapped Redis elects without a quarantine. A Redis that
// loads its data still serves connections and subscriptions. Replicas acknowledge, and a sentinel tells of a failover.
func TestGuestsAsk(t *testing.T) {
	loading := fault.Fault{At: time.Second, Kind: fault.RedisLoading, Ms: 5000}
	failover := fault.Fault{At: 2 * time.Second, Kind: fault.Failover}
	const switched = "*3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n$33\r\nstorm 10.0.0.1 6379 10.0.0.1 638"
	for name, test := range map[string]struct {
		lease string
		ask   []string
		plan  []fault.Fault
		want  string
	}{
		"epoch":                {"", []string{"GET", ""}, nil, "$6\r\nrun1 0"},
		"epoch of an election": {"sovereign:leader", []string{"GET", ""}, nil, "$6\r\nrun1 0"},
		"read, loading":        {"", []string{"GET", ""}, []fault.Fault{loading}, "-LOADING"},
		"hello, loading":       {"", []string{"HELLO", "2"}, []fault.Fault{loading}, "*14\r\n"},
		"subscribe, loading":   {"", []string{"SUBSCRIBE", "news"}, []fault.Fault{loading}, "*3\r\n$9\r\nsubscribe"},
		"wait":                 {"", []string{"WAIT", "2", "100"}, nil, ":2\r\n"},
		"wait for too many":    {"", []string{"WAIT", "3", "100"}, nil, ":2\r\n"},
		"wait at a replica":    {"", []string{"WAIT", "2", "100"}, nil, "-ERR WAIT cannot be used with replica"},
		"failover":             {"", []string{"SUBSCRIBE", "+switch-master"}, []fault.Fault{failover}, switched},
	} {
		a := asker{ask: test.ask, at: guestRedis}
		switch name {
		case "failover":
			a.at = guestSentinel
		case "wait at a replica":
			a.at = "10.0.0.1:6381"
		}
		_, err := Run(Config{
			Nodes: 1, Sessions: 1, Lease: test.lease, Candidates: test.lease != "", TTL: 3 * time.Second, Storm: 3 * time.Second,
			Calm: time.Second, Guest: a.start, Sentinel: strings.HasPrefix(name, "wait") || a.at == guestSentinel,
		}, fault.Plan{Version: 1, Faults: test.plan}, 1, nil)
		if err != nil || !strings.HasPrefix(a.said, test.want) {
			t.Errorf("%s: %q, %v", name, a.said, err)
		}
	}
}

// hasty writes two messages in another order than their stamps, as threads may.
type hasty struct{ naive }

func (h *hasty) Run() guest.State {
	if !h.acquired {
		h.acquired = true
		h.say("ready", "")
		at := now(h.h)
		h.h.Print(1, fmt.Appendf(nil, `{"event":"pollStart","instance":%q,"session":"s","t":%d}`+"\n", h.id, at+2))
		h.h.Print(1, fmt.Appendf(nil, `{"event":"renewed","instance":%q,"session":"s","t":%d}`+"\n", h.id, at+1))
	}
	return guest.State{}
}

func (h *hasty) Connected(int32, string) {}

// History has what a program says in one instant by its stamps: a renewal before the poll that it allows.
func TestGuestsSpeakInOrderOfStamps(t *testing.T) {
	var said []history.Kind
	_, err := Run(Config{
		Nodes: 1, Sessions: 1, TTL: 3 * time.Second, Storm: time.Second, Calm: time.Second,
		Guest: func(env []string, h guest.Host) guest.Program { return &hasty{*newNaive(env, h).(*naive)} },
	}, fault.Plan{Version: 1}, 1, func(e history.Event) {
		if e.Session == "s" {
			said = append(said, e.Kind)
		}
	})
	if want := []history.Kind{history.Renewed, history.PollStart}; err != nil || !slices.Equal(said, want) {
		t.Errorf("%v, want %v; %v", said, want, err)
	}
}
