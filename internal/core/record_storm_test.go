package core_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/virtual"
)

// The storm tests drive fleets of cores in virtual time: what one instance does is for the stories, what many do together
// is for these. A failure names the seed; `play` with the same arguments gives the same run.

// record is what a run came to: its history without Redis' words, and the oracle's findings.
type record struct {
	*testing.T
	name   string
	cfg    virtual.Config
	out    virtual.Outcome
	events []history.Event
	redis  []history.Event // extensions and grants, as Redis executed them
	polls  []history.Event // accepted by the target
}

// play runs plan and fails the test where an instance believed what it must not (G1, G3, G4).
func play(t *testing.T, cfg virtual.Config, plan fault.Plan, seed uint64) *record {
	t.Helper()
	r := &record{T: t, cfg: cfg, name: fmt.Sprintf("seed %d, %d nodes, %d sessions", seed, cfg.Nodes, cfg.Sessions)}
	g4 := failClosed{doubt: map[term]bool{}, until: map[term]int64{}}
	var err error
	r.out, err = virtual.Run(cfg, plan, seed, func(e history.Event) {
		g4.see(&e)
		switch e.Kind {
		case history.RedisGranted, history.RedisExtended:
			r.redis = append(r.redis, e)
		case history.Arrived:
			r.polls = append(r.polls, e)
		case history.RedisFence, history.RedisBeat, history.RedisDeleted, history.RenewStart,
			history.Renewed, history.PollStart, history.PollEnd, history.Served:
		default:
			r.events = append(r.events, e)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if r.out.Overlaps > 0 || r.out.Falls > 0 {
		t.Errorf("%s: %d overlaps (G1), %d falling fences (G3): %s\n%s", r.name, r.out.Overlaps, r.out.Falls, r.out.First,
			planText(plan))
	}
	if g4.broken != "" {
		t.Errorf("%s: G4: %s\n%s", r.name, g4.broken, planText(plan))
	}
	return r
}

func planText(p fault.Plan) string {
	var b strings.Builder
	for _, f := range p.Faults {
		fmt.Fprintf(&b, "  at %v %s %s for %v, %d ms\n", f.At, f.Kind, f.Target, f.For, f.Ms)
	}
	return b.String()
}

// term names what an instance believes about one session.
type term struct{ instance, session string }

// failClosed judges that no poll begins without trust (G4).
type failClosed struct {
	doubt  map[term]bool
	until  map[term]int64
	broken string
}

func (g *failClosed) see(e *history.Event) {
	k := term{e.Instance, e.Session}
	switch e.Kind {
	case history.Acquired, history.Renewed:
		g.doubt[k], g.until[k] = false, e.Until
	case history.RenewFailed, history.Lost, history.Released:
		g.doubt[k] = true
	case history.PollStart:
		if until, held := g.until[k]; !held || g.doubt[k] || e.T >= until {
			g.broken = fmt.Sprintf("at %v %s polls %s without trust", time.Duration(e.T), e.Instance, e.Session)
		}
	}
}

// move is a change of owner; from is "" for a session that nobody had had.
type move struct {
	at                time.Duration
	session, from, to string
}

// moves returns the changes of owner in [from, to). An instance that takes back what it had does not move it.
func (r *record) moves(from, to time.Duration) []move {
	owner := map[string]string{}
	var out []move
	for i := range r.events {
		e := &r.events[i]
		if e.Kind != history.Acquired {
			continue
		}
		if at := time.Duration(e.T); owner[e.Session] != e.Instance && at >= from && at < to {
			out = append(out, move{at, e.Session, owner[e.Session], e.Instance})
		}
		owner[e.Session] = e.Instance
	}
	return out
}

// holders returns how many sessions each living instance holds at that time, in any order.
func (r *record) holders(at time.Duration) []int {
	held := map[string]int{}
	owner := map[string]string{}
	for i := range r.events {
		e := &r.events[i]
		if time.Duration(e.T) > at {
			break
		}
		switch e.Kind {
		case history.Ready:
			held[e.Instance] += 0
		case history.Acquired:
			held[e.Instance]++
			owner[e.Session] = e.Instance
		case history.Lost, history.Released:
			held[e.Instance]--
			if owner[e.Session] == e.Instance {
				delete(owner, e.Session)
			}
		case history.Exited:
			delete(held, e.Instance)
		}
	}
	counts := make([]int, 0, len(held))
	for _, n := range held {
		counts = append(counts, n)
	}
	slices.Sort(counts)
	return counts
}

// balanced reports whether every instance is within one of the ideal and every session is owned (G6).
func balanced(counts []int, sessions int) bool {
	return len(counts) > 0 && total(counts) == sessions && counts[len(counts)-1]-counts[0] <= 1
}

func total(counts []int) (sum int) {
	for _, n := range counts {
		sum += n
	}
	return sum
}

// at returns when the first event of that kind happened, and its instance.
func (r *record) at(k history.Kind, from time.Duration) (time.Duration, string) {
	for i := range r.events {
		if e := &r.events[i]; e.Kind == k && time.Duration(e.T) >= from {
			return time.Duration(e.T), e.Instance
		}
	}
	r.Fatalf("%s: no %v after %v", r.name, k, from)
	return 0, ""
}

// unpolled counts the sessions that the target did not serve in [from, to).
func (r *record) unpolled(from, to time.Duration) int {
	served := map[string]bool{}
	for i := range r.polls {
		if at := time.Duration(r.polls[i].T); at >= from && at < to {
			served[r.polls[i].Session] = true
		}
	}
	return r.cfg.Sessions - len(served)
}
