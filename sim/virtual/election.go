package virtual

import (
	"cmp"
	"strconv"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/core/election"
	"github.com/leasestorm/leasestorm/sim/foreign"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/virtual/redis"
)

type campaign struct {
	plainProgram
	m    *election.Machine
	cfg  election.Config
	id   string // the leader key
	seq  uint64
	look looking
}

// looking is a pending cycle: one read, and a second if the first found an unexpected leader, whose heartbeat is then read.
type looking struct {
	seq  uint64 // of the pending command, 0: none
	read election.Look
	more bool // the pending command reads the heartbeat of read.Of
}

func (w *world) newCampaign(n *node) *campaign {
	e := w.cfg.Election
	cfg := election.Config{
		Instance: n.instance, TTL: int64(w.cfg.TTL),
		Interval:   int64(cmp.Or(e.Interval, w.cfg.TTL/2)),
		Heartbeat:  int64(cmp.Or(e.Heartbeat, w.cfg.TTL/3)),
		StartDelay: upTo(w.load, int64(w.cfg.TTL)/3),
	}
	return &campaign{m: election.New(cfg), cfg: cfg, id: w.sess[0].id}
}

func (c *campaign) start(w *world, n *node) { c.step(w, n, election.Input{Kind: election.Start}) }
func (c *campaign) next() core.Time         { return c.m.Next() }
func (c *campaign) tick(w *world, n *node)  { c.step(w, n, election.Input{Kind: election.Tick}) }

func (c *campaign) asks(w *world, n *node, op *core.Op) {
	if op.Kind == core.OpAcquire {
		c.step(w, n, election.Input{Kind: election.Attempt})
	}
}

func (c *campaign) told(w *world, n *node, t *core.Tell) {
	if t.ID == c.id {
		c.step(w, n, election.TellInput(n.clock.Now(w.t), t))
	}
}

func (c *campaign) drain(w *world, n *node) bool {
	c.step(w, n, election.Input{Kind: election.Stop})
	return true
}

func (c *campaign) step(w *world, n *node, in election.Input) {
	in.Now = n.clock.Now(w.t)
	eff := guarded(n, func() election.Effects { return through(w.cfg.Seams.Election, c.m.Step)(in) })
	if w.fallen(n) {
		return
	}
	for i := range eff.Events {
		c.publish(w, n, &eff.Events[i])
	}
	if eff.Beat {
		c.send(w, n, "SET", redis.ElectionBeats+n.instance, strconv.FormatInt(in.Now.Wall/core.Millisecond, 10), "PX",
			strconv.FormatInt(c.cfg.HeartbeatTTL()/core.Millisecond, 10))
	}
	if eff.Unbeat {
		c.send(w, n, "DEL", redis.ElectionBeats+n.instance)
	}
	if eff.Look {
		c.lookUp(w, n, eff.LookOf)
	}
	if eff.Want {
		w.step(n, core.Event{Kind: core.EvWant, ID: c.id, Wait: true})
	}
	if eff.Doubt {
		w.step(n, core.Event{Kind: core.EvDoubt})
	}
	if eff.Drop {
		w.yield(n, c.id)
	}
	if n.draining && n.alive && c.m.Stopped() {
		w.step(n, core.Event{Kind: core.EvDrain})
	}
}

func (c *campaign) send(w *world, n *node, args ...string) uint64 {
	c.seq++
	w.command(n, foreign.Command{Seq: c.seq, Args: args})
	return c.seq
}

func (c *campaign) lookUp(w *world, n *node, of string) {
	args := []string{"MGET", c.id, "{" + c.id + "}:fence"}
	if of != "" {
		args = append(args, redis.ElectionBeats+of)
	}
	c.look = looking{seq: c.send(w, n, args...), read: election.Look{Of: of}}
}

func (c *campaign) replied(w *world, n *node, r *foreign.Reply) {
	l := &c.look
	if l.seq == 0 || r.Seq != l.seq {
		return // the reply to a heartbeat, which needs no action
	}
	l.seq = 0
	switch {
	case r.Err != "":
		l.read = election.Look{Failed: true}
	case l.more:
		l.read.Heartbeat, l.read.Beats = r.Value.(string)
	default:
		texts := r.Texts()
		l.read.Leader = texts[0]
		l.read.Fence, _ = strconv.ParseInt(texts[1], 10, 64)
		if all := r.Value.([]any); len(all) > 2 {
			l.read.Heartbeat, l.read.Beats = all[2].(string)
		}
		if lead := l.read.Leader; lead != "" && lead != l.read.Of {
			l.read.Of, l.read.Heartbeat, l.read.Beats = lead, "", false
			l.seq, l.more = c.send(w, n, "GET", redis.ElectionBeats+lead), true
			return
		}
	}
	c.step(w, n, election.Input{Kind: election.Looked, Look: l.read})
}

func (c *campaign) publish(w *world, n *node, e *election.Event) {
	switch e.Kind {
	case election.StateChanged:
		w.say(n, history.StateChanged, c.id, e.Fence, e.From.String()+" "+e.To.String())
	case election.LeadershipAcquired:
		w.say(n, history.LeadershipAcquired, c.id, e.Fence, "")
	case election.LeadershipLost:
		w.say(n, history.LeadershipLost, c.id, e.Fence, e.Reason)
	case election.ElectionFailed:
		w.say(n, history.ElectionFailed, c.id, 0, e.Reason)
	case election.LeaderChanged:
		w.say(n, history.Leading, c.id, e.Fence, e.Leader)
	case election.HeartbeatStale:
		w.say(n, history.KindUnknown, c.id, 0, "heartbeatStale of "+e.Leader)
	case election.HeartbeatInvalid:
		w.say(n, history.KindUnknown, c.id, 0, "heartbeatInvalid of "+e.Leader+": "+e.Reason)
	case election.DuplicateInstance:
		w.say(n, history.KindUnknown, c.id, 0, "duplicateInstance: "+e.Reason)
	}
}
