package check

import (
	"crypto/sha256"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/google/go-cmp/cmp"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/timing"
)

// TestStories judges the hand-made histories of testdata/stories. The stories of a file show what one guarantee accepts and what it must
// catch. A story is the input of a "judge" command. -rewrite rewrites the verdicts; read the diff.
func TestStories(t *testing.T) {
	datadriven.Walk(t, "testdata/stories", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd != "judge" {
				d.Fatalf(t, "unknown command")
			}
			p, ids, events := readStory(t, d)
			r := judgeBothWays(t, p, events)
			return told(r, ids)
		})
	})
}

// told is the judge's expected answer to a story.
func told(r Result, ids []string) string {
	var out strings.Builder
	for _, v := range r.Verdicts {
		if !slices.Contains(ids, v.ID) {
			continue
		}
		fmt.Fprintf(&out, "%s %s: %d of %d %s, exercised %d, excused %d\n", v.ID, v.Verdict, v.Value, v.Limit, v.Unit,
			v.Exercised, v.Excused)
		for _, s := range strings.Split(v.Detail, "; ") {
			if s != "" {
				fmt.Fprintf(&out, "  %s\n", s)
			}
		}
	}
	return out.String()
}

// judgeBothWays judges the events in memory and from a saved file. The verdicts must be the same.
func judgeBothWays(t *testing.T, p Params, events []history.Event) Result {
	t.Helper()
	rec := history.NewRecorder()
	for _, e := range events {
		rec.Add(e)
	}
	memory := explained(t, p, rec.Events())
	path := filepath.Join(t.TempDir(), history.FileName)
	if err := rec.Save(path); err != nil {
		t.Fatal(err)
	}
	saved := explained(t, p, history.Open(filepath.Dir(path)))
	if diff := cmp.Diff(memory, saved); diff != "" {
		t.Fatalf("a saved history is judged differently:\n%s", diff)
	}
	return memory
}

func explained(t *testing.T, p Params, events iter.Seq2[history.Event, error]) Result {
	t.Helper()
	r, err := Judge(p, events, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func storyParams() Params {
	return Params{
		Nodes: 3, Sessions: 1,
		Timings: timing.Timings{
			TTL: 3 * time.Second, Renew: time.Second, RenewTimeout: 300 * time.Millisecond, Heartbeat: time.Second,
			Discovery: time.Second, Poll: 500 * time.Millisecond, PollTimeout: 400 * time.Millisecond,
		},
	}
}

// readStory reads the command's arguments and its input.
func readStory(t *testing.T, d *datadriven.TestData) (p Params, ids []string, events []history.Event) {
	t.Helper()
	p = storyParams()
	for _, a := range d.CmdArgs {
		switch a.Key {
		case "tap":
			p.Tap = true
		case "foreign":
			p.Foreign = true
		case "virtual":
			p.Redis = "model"
		case TopologySentinel, TopologyCluster:
			p.Topology, p.Followed = a.Key, true
		case "interrupted":
			p.Interrupted = true
		case "nodes", "sessions", "tuners", "replicas":
			n, err := strconv.Atoi(a.Vals[0])
			if err != nil {
				d.Fatalf(t, "%v", err)
			}
			*map[string]*int{"nodes": &p.Nodes, "sessions": &p.Sessions, "tuners": &p.Tuners, "replicas": &p.Replicas}[a.Key] = n
		case "renew", "discovery", "poll":
			every, err := time.ParseDuration(a.Vals[0])
			if err != nil {
				d.Fatalf(t, "%v", err)
			}
			*map[string]*time.Duration{"renew": &p.Renew, "discovery": &p.Discovery, "poll": &p.Poll}[a.Key] = every
		default:
			switch a.Key[0] {
			case 'I':
				p.System = SystemIntents
			case 'E':
				p.System = SystemElection
			}
			ids = append(ids, a.Key)
		}
	}
	s := story{p: &p, spawns: map[string]int{}}
	for _, line := range strings.Split(d.Input, "\n") {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if err := s.line(line); err != nil {
			d.Fatalf(t, "%s: %v", line, err)
		}
	}
	slices.SortStableFunc(s.events, func(a, b history.Event) int { return int(a.T - b.T) })
	s.name()
	return p, ids, s.events
}

// story turns lines into events.
type story struct {
	p      *Params
	events []history.Event
	spawns map[string]int
	polls  int64
	ms     int64 // of the line's fault
}

func (s *story) line(line string) error {
	reason := ""
	if i, j := strings.Index(line, "("), strings.LastIndex(line, ")"); i >= 0 && j > i {
		reason = line[i+1 : j]
		line = line[:i] + line[j+1:]
	}
	fields := strings.Fields(line)
	if strings.HasPrefix(fields[0], "+") {
		return s.macro(fields)
	}
	at, err := millisOf(fields[0])
	if err != nil {
		return err
	}
	kind, ok := history.ParseKind(fields[1])
	if !ok {
		return fmt.Errorf("unknown event %s", fields[1])
	}
	if payload, ok := strings.CutPrefix(reason, "key of "); ok {
		reason = fmt.Sprintf("%x", sha256.Sum256([]byte("v1:stream.start:"+payload)))
	}
	e := history.Event{T: at, Kind: kind, Reason: reason}
	s.ms = 0
	for _, f := range fields[2:] {
		if err := s.field(&e, f); err != nil {
			return err
		}
	}
	s.events = append(s.events, e)
	if kind == history.FaultStart {
		for int64(len(s.p.Plan.Faults)) <= e.N {
			s.p.Plan.Faults = append(s.p.Plan.Faults, fault.Fault{})
		}
		s.p.Plan.Faults[e.N] = fault.Fault{Kind: fault.Kind(reason), Target: e.Node + e.Session, At: time.Duration(at), Ms: s.ms}
	}
	return nil
}

func (s *story) field(e *history.Event, f string) (err error) {
	switch {
	case f[0] >= 'A' && f[0] <= 'Z':
		e.Node = f
	case f[0] == '@': // a server other than the master that the sentinels name
		e.Node += f
	case f[0] == '=': // the process's own ID, if it differs from its slot
		e.Instance = f[1:]
	case f[0] == 's', f[0] == 't':
		e.Session = f
	case f[0] == 'f':
		e.Fence, err = strconv.ParseInt(f[1:], 10, 64)
	case f[0] == 'u':
		e.Until, err = millisOf(f[1:])
	case f[0] == 'm':
		s.ms, err = strconv.ParseInt(f[1:], 10, 64)
	case f[0] == 'n':
		e.N, err = strconv.ParseInt(f[1:], 10, 64)
	default:
		err = fmt.Errorf("what is %s?", f)
	}
	return err
}

// name gives nodes' events their instance: the slot and the number of the process in it.
func (s *story) name() {
	for i := range s.events {
		e := &s.events[i]
		node, server, beside := strings.Cut(e.Node, "@")
		if beside {
			e.Node = node
		}
		switch {
		case e.Kind == history.Spawned:
			s.spawns[e.Node]++
		case e.Instance != "":
		case e.Kind.Said() || e.Kind == history.Exited:
			e.Instance = s.instance(e.Node)
		case e.Kind >= history.Arrived && e.Kind <= history.RedisBeatGone:
			e.Node, e.Instance = "", s.instance(e.Node)
		}
		if beside {
			e.Node = server
		}
	}
}

// instance returns "A" for the first process of slot A (which need not be spawned), "A2" for the second, and so on.
func (s *story) instance(node string) string {
	if n := s.spawns[node]; n > 1 && node != "" {
		return node + strconv.Itoa(n)
	}
	return node
}

func (s *story) macro(f []string) error {
	span := len(f) - 2
	from, err := millisOf(f[span])
	if err != nil {
		return err
	}
	to, err := millisOf(f[span+1])
	if err != nil {
		return err
	}
	base := history.Event{}
	for _, x := range f[1:span] {
		if err := s.field(&base, x); err != nil {
			return err
		}
	}
	add := func(k history.Kind, t int64, set func(*history.Event)) {
		e := base
		e.Kind, e.T = k, t
		set(&e)
		s.events = append(s.events, e)
	}
	none := func(*history.Event) {}
	const ms = int64(time.Millisecond)
	switch f[0] {
	case "+polls":
		for t := from; t <= to; t += int64(s.p.Poll) {
			s.polls++
			n := func(e *history.Event) { e.N = 1000 + s.polls }
			add(history.PollStart, t, none)
			add(history.Arrived, t+ms, n)
			add(history.Served, t+9*ms, func(e *history.Event) { n(e); e.Fence = 0 })
			add(history.PollEnd, t+10*ms, none)
		}
	case "+renews":
		for t := from; t <= to; t += int64(s.p.Renew) {
			add(history.RenewStart, t, none)
			add(history.Renewed, t+ms, func(e *history.Event) { e.Until = t + int64(s.p.TTL) - s.p.margin() })
		}
	case "+extends":
		for t := from; t <= to; t += int64(s.p.Renew) {
			add(history.RedisExtended, t+ms/2, func(e *history.Event) { e.Until = t + int64(s.p.TTL) })
		}
	case "+beats":
		for t := from; t <= to; t += int64(s.p.Heartbeat) {
			add(history.RedisBeat, t, func(e *history.Event) { e.Until = t + int64(s.p.TTL) })
		}
	case "+sends":
		for t := from; t <= to; t += int64(history.Bucket(s.p.Renew)) {
			add(history.Commands, t, none)
		}
	default:
		return fmt.Errorf("unknown macro")
	}
	return nil
}

func millisOf(s string) (int64, error) {
	f, err := strconv.ParseFloat(s, 64)
	return int64(f * float64(time.Millisecond)), err
}

func sequence(events []history.Event) iter.Seq2[history.Event, error] {
	return func(yield func(history.Event, error) bool) {
		for _, e := range events {
			if !yield(e, nil) {
				return
			}
		}
	}
}
