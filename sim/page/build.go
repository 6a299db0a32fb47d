package page

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leasestorm/leasestorm/internal/plain"
	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/criteria"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/measure"
	"github.com/leasestorm/leasestorm/sim/report"
)

// Largest number of drawn breaks, of each guarantee and of all.
const (
	drawnMax = 50
	allMax   = 120
)

type builder struct {
	in string
	r  report.Report
	p  check.Params
	m  *model
	c  *collector
}

type one struct {
	check.Break
	id   string
	more bool // not the first break of its guarantee
}

// broken returns the breaks by importance: the first break of each guarantee, then the others. Safety guarantees precede late changes,
// which a fallen fence may have caused.
func (b *builder) broken() (all []one) {
	safety := check.Safety(b.p.System)
	safe := func(x one) bool { return slices.Contains(safety, x.id) }
	for _, v := range b.r.Guarantees {
		for i, x := range v.Breaks[:min(len(v.Breaks), drawnMax)] {
			first := x.First || i == 0 && !slices.ContainsFunc(v.Breaks, func(o check.Break) bool { return o.First })
			all = append(all, one{x, v.ID, !first})
		}
	}
	if at := firstOverlap(all); at >= 0 {
		for i := range all {
			all[i].more = all[i].more || all[i].id == all[at].id
		}
		all[at].more = false
	}
	slices.SortStableFunc(all, func(x, y one) int {
		return cmp.Or(less(y.more, x.more), less(b.r.Asked(x.id), b.r.Asked(y.id)), less(two(x), two(y)), less(safe(x), safe(y)),
			cmp.Compare(x.From, y.From))
	})
	return all[:min(len(all), allMax)]
}

// firstOverlap returns the index of the overlap that began first, -1 for none. An overlong window only allows an overlap.
func firstOverlap(all []one) int {
	at := -1
	for i, x := range all {
		if two(x) && (at < 0 || x.From < all[at].From) {
			at = i
		}
	}
	return at
}

func two(x one) bool { return (x.id == "G1" || x.id == "E1") && len(x.Owners) > 1 }

// spans returns the kept times of each session: from three TTLs before a break to at least two after it. The earliest TTL may have the
// last extension of the lease.
func (b *builder) spans(found []one) map[string][]span {
	ttl, all := int64(b.p.TTL), map[string][]span{}
	for _, x := range found {
		if x.Session != "" {
			to := max(x.From+2*ttl, min(x.To+ttl/2, x.From+6*ttl))
			all[x.Session] = append(all[x.Session], span{x.From - 3*ttl, to})
		}
	}
	return all
}

func (b *builder) order() {
	nodes := make([]int, len(b.m.Nodes))
	for i := range nodes {
		nodes[i] = i
	}
	slices.SortFunc(nodes, func(x, y int) int {
		a, z := b.m.Nodes[x].Name, b.m.Nodes[y].Name
		return cmp.Or(cmp.Compare(len(a), len(z)), cmp.Compare(a, z))
	})
	to, old, sent := make([]int, len(nodes)), b.m.Nodes, b.m.Load.Sent
	b.m.Nodes, b.m.Load.Sent = make([]node, len(nodes)), make([][]int64, len(nodes))
	for i, was := range nodes {
		to[was], b.m.Nodes[i], b.m.Load.Sent[i] = i, old[was], sent[was]
	}
	moved := func(n int) int {
		if n < 0 {
			return n
		}
		return to[n]
	}
	for i, n := range b.m.Terms.Node {
		b.m.Terms.Node[i] = int32(moved(int(n)))
	}
	for i, n := range b.m.Events.Node {
		b.m.Events.Node[i] = int32(moved(int(n)))
	}
	for i := range b.m.Faults {
		b.m.Faults[i].Node = moved(b.m.Faults[i].Node)
	}
	for inst, n := range b.c.instances {
		b.c.instances[inst] = moved(n)
	}
}

func (b *builder) kinds() {
	for k := history.KindUnknown; ; k++ {
		if k > 0 && k.String() == history.KindUnknown.String() {
			return
		}
		b.m.Kinds = append(b.m.Kinds, k.String())
	}
}

func (b *builder) guarantees() {
	decides := criteria.Decides(b.p)
	for _, v := range b.r.Guarantees {
		g := guarantee{
			ID: v.ID, Promise: check.Promise(v.ID), Verdict: v.Verdict, Value: v.Value, Limit: v.Limit, Unit: shown(v.Unit),
			Decides:   slices.Contains(decides, v.ID) || v.Verdict == check.Fail && b.r.Asked(v.ID),
			Exercised: v.Exercised, Excused: v.Excused, Detail: plain.Text(plain.Cut(v.Detail, detailMax)),
		}
		g.Shown, g.Bound = report.Cells(v)
		for _, k := range v.Kinds {
			k.Kind = shown(k.Kind)
			g.Kinds = append(g.Kinds, k)
			g.Broken += k.Broken
		}
		for _, t := range v.Times {
			g.Times = append(g.Times, timesOf(t))
		}
		b.m.Guarantees = append(b.m.Guarantees, g)
	}
}

const detailMax = 4000

func timesOf(t measure.Times) times {
	inMs := func(d time.Duration) float64 { return math.Round(float64(d)/float64(time.Microsecond)) / 1000 }
	out := times{Of: shown(t.Of), N: t.N, P50: inMs(time.Duration(t.P50)), P99: inMs(time.Duration(t.P99)), Max: inMs(time.Duration(t.Max))}
	for _, at := range slices.Sorted(maps.Keys(t.Buckets)) {
		out.Dots = append(out.Dots, [2]float64{min(inMs(measure.Longest(at)), out.Max), float64(t.Buckets[at])})
	}
	return out
}

func (b *builder) plan() {
	for i, f := range b.r.Faults {
		b.m.Plan = append(b.m.Plan, planned{
			N: i, At: f.At.Milliseconds(), Kind: shown(string(f.Kind)), Target: shown(f.Target), For: f.For.Milliseconds(), Lone: f.Lone,
		})
	}
}

func (b *builder) config() {
	p, s := b.p, b.r.Stats
	add := func(name, value string) {
		if value != "" {
			b.m.Config = append(b.m.Config, [2]string{name, shown(value)})
		}
	}
	whole := func(name string, n int64) { add(name, strconv.FormatInt(n, 10)) }
	length := func(name string, d time.Duration) { add(name, d.String()) }
	add("scenario", p.Scenario)
	add("seed", strconv.FormatUint(b.r.Seed, 10))
	add("engine", b.r.Engine)
	add("system", cmp.Or(p.System, check.SystemPolling))
	whole("nodes", int64(p.Nodes))
	whole("sessions", int64(p.Sessions))
	if p.Topology != "" {
		add("topology", fmt.Sprintf("%s, Replicas %d", p.Topology, p.Replicas))
	}
	length("TTL", p.TTL)
	length("renew", p.Renew)
	length("renew time-out", p.RenewTimeout)
	length("heartbeat", p.Heartbeat)
	length("discovery", p.Discovery)
	length("poll", p.Poll)
	length("poll time-out", p.PollTimeout)
	length("served in", p.Serve)
	length("storm and calm", p.Duration)
	add("speed", strconv.FormatFloat(p.Speed, 'g', -1, 64))
	add("Redis watched", strconv.FormatBool(p.Tap))
	add("foreign nodes", strconv.FormatBool(p.Foreign))
	add("nodes were", b.r.Nodes())
	if p.Least > 0 {
		whole("exercised at least", int64(p.Least))
	}
	add("criteria", cmp.Or(strings.Join(p.Criteria, ", "), "those the plan can exercise, and any that breaks"))
	add("Redis", strings.TrimSpace(b.r.Redis.Kind+" "+b.r.Redis.Version))
	add("commit", cmp.Or(b.r.Commit, "unknown"))
	whole("events", s.Events)
	whole("polls", s.Polls)
	whole("polls refused", s.Rejected)
	whole("Redis commands", s.RedisCommands)
	add("host stalled", fmt.Sprintf("%d ms", s.StalledMs))
	add("took", (time.Duration(s.WallMs) * time.Millisecond).String())
	add("history sha256", s.HistorySHA256)
}
