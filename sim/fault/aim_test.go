package fault

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// A fault hits the instance with the most leases, or the owner of the named session. It never hits one under another fault, nor nobody.
func TestResolve(t *testing.T) {
	for _, c := range []struct {
		name, target string
		owners       []int // of session-1, session-2, …
		busy         []int
		want         int // 0: nobody
	}{
		{"who holds most", Owner, []int{2, 3, 3}, nil, 3},
		{"the first of those who hold as many", Owner, []int{3, 2, 10, 2, 3, 10}, nil, 2},
		{"the next, if that one is in hand", Owner, []int{3, 3, 2, 0}, []int{3}, 2},
		{"nobody, if all are in hand", Owner, []int{3, 2}, []int{2, 3}, 0},
		{"nobody, where only nobody owns", Owner, []int{0, 0}, nil, 0},
		{"what nobody owns counts for nobody", Owner, []int{0, 0, 4}, nil, 4},
		{"nobody, without leases", Owner, nil, nil, 0},
		{"who holds a session", "owner:session-2", []int{3, 2, 3}, nil, 2},
		{"not another for it", "owner:session-2", []int{3, 2, 3}, []int{2}, 0},
		{"a session that nobody holds", "owner:session-1", []int{0, 2}, nil, 0},
		{"a session that is not there yet", "owner:session-3", []int{2, 2}, nil, 0},
		{"the leader holds the one lease", Leader, []int{2}, nil, 2},
		{"whom a saved run hit, whoever owns", "owner:node-1", []int{2}, nil, 1},
		{"not while another fault has it in hand", "owner:node-1", []int{1}, []int{1}, 0},
	} {
		slot, ok := Resolve(c.target, c.owners, func(i int) bool { return !slices.Contains(c.busy, i) })
		if ok != (c.want > 0) || ok && slot != c.want {
			t.Errorf("%s: %s hits %d (%v), want %d", c.name, c.target, slot, ok, c.want)
		}
	}
}

func TestAims(t *testing.T) {
	for target, want := range map[string]bool{
		Owner: true, Leader: true, Same: true, OwnerTarget(SessionTarget(2)): true, OwnerTarget(NodeTarget(2)): true, NodeTarget(2): false, "": false,
		"owners": false,
	} {
		if got := (Fault{Kind: Crash, Target: target}).Aims(); got != want {
			t.Errorf("crash of %q aims at an owner: %v", target, got)
		}
	}
	for _, k := range []Kind{Join, Leave, RedisOutage, SessionPause} {
		if (Fault{Kind: k, Target: Owner}).Aims() {
			t.Errorf("%s aims at an owner", k)
		}
	}
}

// An impossible target is refused before anything runs.
func TestOwnersAreValidated(t *testing.T) {
	for _, c := range []struct {
		kind         Kind
		target, want string // "": it is valid
	}{
		{Cut, "owner", ""},
		{Cut, "leader", ""},
		{Cut, "owner:session-4", ""},
		{Cut, "owner:session-5", "owner:session-1 to owner:session-4"},
		{Cut, "owner:session-0", "owner:session-1 to owner:session-4"},
		{Cut, "owner:node-2", ""},
		{Cut, "owner:node-3", "node-3 does not take part"},
		{Cut, "owner:", "owner:session-1 to owner:session-4"},
		{Cut, "ownership", "no node: write node-1, node-2, …, or owner"},
		{Leave, "same", "no node: write node-1, node-2, …"},
		{Leave, "owner", "no node: write node-1, node-2, …"},
		{Join, "owner:node-3", "no node: write node-1, node-2, …"},
		{KeyDelete, "owner", "no session"},
	} {
		f := Fault{Kind: c.kind, Target: c.target}
		if c.kind.row().takes&takesFor != 0 {
			f.For = time.Second
		}
		err := Plan{Faults: []Fault{f}}.Validate(Limits{Nodes: 2, Sessions: 4, Storm: time.Minute})
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s of %s: %v", c.kind, c.target, err)
		case c.want != "" && (!errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s of %q: %v, want %q", c.kind, c.target, err, c.want)
		}
	}
}

// Target "same" hits the node of the last fault of an owner, and nobody without such a fault.
func TestSame(t *testing.T) {
	plan := func(targets ...string) (p Plan) {
		for _, target := range targets {
			p.Faults = append(p.Faults, Fault{Kind: Cut, Target: target, For: time.Second})
		}
		return p
	}
	limits := Limits{Nodes: 2, Sessions: 4, Storm: time.Minute}
	p := plan(Owner, Leader, "node-1", Same, Same)
	if err := p.Validate(limits); err != nil {
		t.Error(err)
	}
	for n, want := range []int{-1, 0, 1, 1, 1} {
		if got := Lead(p.Faults, n); got != want {
			t.Errorf("fault %d follows %d, want %d", n, got, want)
		}
	}
	if err := plan("node-1", Same, Owner).Validate(limits); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "no fault of an owner is above") {
		t.Errorf("the first fault of an owner comes later: %v", err)
	}
}

// Lone injections of nodes hit owners. Those that keep an owner from renewing outlast its trust, even in short storms.
func TestLoneInjectionsAimAtOwnersAndOutlastTheirTrust(t *testing.T) {
	for _, total := range []time.Duration{5 * time.Minute, 20 * time.Minute} {
		p := atSpeed(10, 100, 1, total)
		p.Kinds = VirtualKinds()
		p.Virtual = true
		seen := map[Kind]bool{}
		for seed := range uint64(50) {
			for _, f := range Draw(seed, p).Faults {
				if !f.Lone || f.Kind.Scope() != ScopeNode && f.Kind != RedisFreeze || f.Kind == Join || f.Kind == Leave {
					continue
				}
				seen[f.Kind] = true
				if f.Kind != RedisFreeze && !f.Aims() {
					t.Errorf("%v: %s hits %s", total, f.Kind, f.Target)
				}
				switch f.Kind {
				case Cut, BlackHole, RequestsLost, RepliesLost, Flapping, Freeze, Suspend, RedisFreeze, Crash:
					if f.For <= p.TTL+FailoverAllowance {
						t.Errorf("%v: %s lasts %v: another cannot have taken over within it", total, f.Kind, f.For)
					}
				}
			}
		}
		if !seen[BlackHole] || total > 5*time.Minute && (!seen[Cut] || !seen[Suspend] || !seen[RedisFreeze]) {
			t.Errorf("%v: alone were drawn only %v", total, seen)
		}
	}
}

// Some mixed injections of nodes hit owners and some do not. A node that can own nothing does not count.
func TestMixedInjectionsAimAtOwnersToo(t *testing.T) {
	p := atSpeed(6, 30, 1, 20*time.Minute)
	p.Mixed, p.Kinds = true, []Kind{Freeze, Cut}
	share := func() float64 {
		aimed, all := 0, 0
		for seed := range uint64(20) {
			for _, f := range Draw(seed, p).Faults {
				if all++; f.Aims() {
					aimed++
				}
			}
		}
		return float64(aimed) / float64(all)
	}
	if s := share(); s < 0.4 || s > 0.6 {
		t.Errorf("%.2f of the injections aim at owners, want half", s)
	}
	p.Leader = true
	if s := share(); s < 0.65 || s > 0.85 {
		t.Errorf("%.2f of the injections aim at the leader, want three quarters", s)
	}
	p.Owns = func(int) bool { return false }
	if s := share(); s != 0 {
		t.Errorf("%.2f of the injections aim at owners, where nobody can own", s)
	}
}
