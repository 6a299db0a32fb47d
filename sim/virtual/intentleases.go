package virtual

import (
	"slices"

	goredis "github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/core/intent"
	"github.com/leasestorm/leasestorm/internal/membership"
	"github.com/leasestorm/leasestorm/internal/policy"
	"github.com/leasestorm/leasestorm/internal/redisstore"
)

// intentLeases acquires and releases leases for a worker's sessions, and tells its inbox the results.
type intentLeases struct {
	*intentProcess
	inbox    *intentInbox
	member   *membership.Member
	keep     func(session string, h intentHold) bool // whether the session still has a job
	store    *redisstore.Store                       // for passing leases on
	passed   core.Passed
	wants    policy.Waiters[string, intent.Event] // sessions that wait for a lease
	releases policy.Releases[*intentRelease]
	released latch // the core has drained
}

// intentHold is a term of a lease.
type intentHold struct {
	n     *node
	id    string
	fence int64
	gen   uint32
}

func (h intentHold) Name() string { return h.id }

func (h intentHold) Valid() bool {
	tm := h.term()
	return tm != nil && h.n.shell.trusts(tm, h.n.t)
}

func (h intentHold) term() *term {
	if _, tm := h.n.shell.term(h.id); tm != nil && tm.gen == h.gen {
		return tm
	}
	return nil
}

type intentRelease struct {
	session string
	left    int
	over    bool
}

func (l *intentLeases) open(client *goredis.Client) {
	options := l.n.cfg.storeOptions()
	options.OpTimeout, options.PoolSize = never, poolSize
	l.store = must(redisstore.New(client, options))
}

// acquire attempts to get a lease. If From is set, it first passes the lease on from From.
func (l *intentLeases) acquire(e *intent.Effect) {
	if e.From == "" {
		l.want(e.Session, e.Lease)
		return
	}
	l.passed.Add(e.Lease)
	l.begin(func(r *routine) {
		_, err := l.store.Pass(l.ctx, e.From, l.n.instance, l.n.cfg.TTL, e.Lease)
		switch {
		case r.dead:
		case err != nil:
			l.attempted(e.Session, intent.Event{Kind: intent.EvLease, Lease: e.Lease, Outcome: intent.NoAnswer})
		default:
			l.want(e.Session, e.Lease)
		}
	})
}

// attempted tells the machine the result of a session's attempt.
func (l *intentLeases) attempted(session string, e intent.Event) {
	e.Session = session
	l.inbox.tell(l.member.Attempted(e))
}

func (l *intentLeases) want(session, id string) {
	_, tm := l.n.shell.term(id)
	l.take(id, l.wants.Want(id, session, false, tm != nil))
}

// take carries out a decision about the sessions that wait for a lease. won handles the session that gets it.
func (l *intentLeases) take(id string, t policy.Reply[string, intent.Event]) {
	for _, c := range t.Heard {
		switch c.Word {
		case policy.Held:
			l.attempted(c.Caller, l.heldHere(id))
		case policy.Refused:
			l.attempted(c.Caller, t.Why)
		}
	}
	if t.Want {
		l.n.step(core.Event{Kind: core.EvWant, ID: id, Wait: t.Wait})
	}
	if t.Drop {
		l.n.drop(id)
	}
}

func (l *intentLeases) heldHere(id string) intent.Event {
	e := intent.Event{Kind: intent.EvLease, Lease: id, Outcome: intent.Held, Owner: l.n.instance}
	if _, tm := l.n.shell.term(id); tm != nil {
		e.Wait = int64(max(0, tm.until-l.n.mono()))
	}
	return e
}

func (l *intentLeases) told(t *core.Tell) {
	switch t.Kind {
	case core.TellAcquired:
		heard := l.wants.Acquired(t.ID)
		if heard.Given {
			l.won(t, heard.Heard[0].Caller)
		}
		l.take(t.ID, heard)
	case core.TellRefused:
		l.take(t.ID, l.wants.Refused(t.ID, t.Cause, func() intent.Event { return l.refusal(t) }))
	case core.TellRenewed:
		l.inbox.tell(intent.Event{Kind: intent.EvRenewed, Lease: t.ID, Fence: t.Fence, Until: t.Until})
	case core.TellLost:
		l.inbox.tell(intent.Event{Kind: intent.EvLost, Lease: t.ID, Fence: t.Fence})
		l.settle(l.releases.Over(t.ID))
		l.take(t.ID, l.wants.Over(t.ID))
	case core.TellReleased:
		l.take(t.ID, l.wants.Over(t.ID))
	case core.TellReleaseFailed:
		l.settle(l.releases.Over(t.ID))
	}
}

func (l *intentLeases) won(t *core.Tell, session string) {
	hold := intentHold{n: l.n, id: t.ID, fence: t.Fence}
	if _, tm := l.n.shell.term(t.ID); tm != nil {
		hold.gen = tm.gen
	}
	l.inbox.put(intentMessage{
		f: func() {
			if !l.keep(session, hold) {
				l.n.drop(hold.id)
			}
		},
		event: l.member.Attempted(intent.Event{
			Kind: intent.EvLease, Session: session, Lease: t.ID, Outcome: intent.Granted, Fence: t.Fence, Until: t.Until,
		}),
	})
}

func (l *intentLeases) refusal(t *core.Tell) intent.Event {
	e := intent.Event{Kind: intent.EvLease, Lease: t.ID, Outcome: intent.NoAnswer}
	switch t.Cause {
	case core.CauseHeld:
		e.Outcome, e.Owner, e.Wait = intent.Held, t.Owner, t.Wait
	case core.CauseStuck:
		e.Outcome, e.Owner = intent.Held, l.n.instance
	case core.CauseQuarantine:
		e.Outcome, e.Wait = intent.NotNow, t.Wait
	case core.CauseWrongType:
		e.Outcome, e.Text = intent.Refused, "the key is somebody else's"
	}
	return e
}

// release releases leases and waits for Redis' confirmation, at most for the store's timeout.
func (l *intentLeases) release(session string, holds []intentHold) {
	r := &intentRelease{session: session}
	holds = slices.DeleteFunc(holds, func(h intentHold) bool { return h.term() == nil })
	for _, h := range holds {
		r.left++
		l.releases.Wait(h.id, r)
	}
	if r.left == 0 {
		l.confirmed(r)
		return
	}
	l.n.inProcess(l.n.clock.TrueOf(0, int64(storePatience)), func() { l.confirmed(r) })
	for _, h := range holds {
		l.n.drop(h.id)
	}
}

func (l *intentLeases) confirmed(r *intentRelease) {
	if !r.over {
		r.over = true
		l.inbox.tell(intent.Event{Kind: intent.EvReleased, Session: r.session})
	}
}

func (l *intentLeases) settle(waiting []*intentRelease) {
	for _, r := range waiting {
		if r.left--; r.left == 0 {
			l.confirmed(r)
		}
	}
}

func (l *intentLeases) answered(op *core.Op, a *core.Answer) {
	l.passed.Answered(op, a)
	l.settle(l.releases.Answered(op, a))
}

// stop releases all leases. Leases whose release is not confirmed in time expire. False: the routine must end.
func (l *intentLeases) stop(r *routine) bool {
	l.wants.Close()
	l.n.step(core.Event{Kind: core.EvDrain})
	timeout := membership.ReleaseTimeout(l.n.cfg.TTL, storePatience)
	return l.released.wait(r, l.n.clock.TrueOf(0, int64(timeout)))
}
