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
	n    *node
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

func newCampaign(n *node) *campaign {
	e := n.cfg.Election
	cfg := election.Config{
		Instance: n.instance, TTL: int64(n.cfg.TTL),
		Interval:   int64(cmp.Or(e.Interval, n.cfg.TTL/2)),
		Heartbeat:  int64(cmp.Or(e.Heartbeat, n.cfg.TTL/3)),
		StartDelay: upTo(n.load, int64(n.cfg.TTL)/3),
	}
	return &campaign{n: n, m: election.New(cfg), cfg: cfg, id: n.fleet.app.sessions[0].id}
}

func (c *campaign) start()          { c.step(election.Input{Kind: election.Start}) }
func (c *campaign) next() core.Time { return c.m.Next() }
func (c *campaign) tick()           { c.step(election.Input{Kind: election.Tick}) }

func (c *campaign) asks(op *core.Op) {
	if op.Kind == core.OpAcquire {
		c.step(election.Input{Kind: election.Attempt})
	}
}

func (c *campaign) told(t *core.Tell) {
	if t.ID == c.id {
		c.step(election.TellInput(c.n.clock.Now(c.n.t), t))
	}
}

func (c *campaign) drain() bool {
	c.step(election.Input{Kind: election.Stop})
	return true
}

func (c *campaign) step(in election.Input) {
	in.Now = c.n.clock.Now(c.n.t)
	eff := guarded(c.n, func() election.Effects { return through(c.n.cfg.Seams.Election, c.m.Step)(in) })
	if c.n.fallen() {
		return
	}
	for i := range eff.Events {
		c.publish(&eff.Events[i])
	}
	if eff.Beat {
		c.send("SET", redis.ElectionBeats+c.n.instance, strconv.FormatInt(in.Now.Wall/core.Millisecond, 10), "PX",
			strconv.FormatInt(c.cfg.HeartbeatTTL()/core.Millisecond, 10))
	}
	if eff.Unbeat {
		c.send("DEL", redis.ElectionBeats+c.n.instance)
	}
	if eff.Look {
		c.lookUp(eff.LookOf)
	}
	if eff.Want {
		c.n.step(core.Event{Kind: core.EvWant, ID: c.id, Wait: true})
	}
	if eff.Doubt {
		c.n.step(core.Event{Kind: core.EvDoubt})
	}
	if eff.Drop {
		c.n.shell.yield(c.id)
	}
	if c.n.draining && c.n.alive && c.m.Stopped() {
		c.n.step(core.Event{Kind: core.EvDrain})
	}
}

func (c *campaign) send(args ...string) uint64 {
	c.seq++
	c.n.command(foreign.Command{Seq: c.seq, Args: args}, c.replied)
	return c.seq
}

func (c *campaign) lookUp(of string) {
	args := []string{"MGET", c.id, "{" + c.id + "}:fence"}
	if of != "" {
		args = append(args, redis.ElectionBeats+of)
	}
	c.look = looking{seq: c.send(args...), read: election.Look{Of: of}}
}

func (c *campaign) replied(r *foreign.Reply) {
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
			l.seq, l.more = c.send("GET", redis.ElectionBeats+lead), true
			return
		}
	}
	c.step(election.Input{Kind: election.Looked, Look: l.read})
}

func (c *campaign) publish(e *election.Event) {
	switch e.Kind {
	case election.StateChanged:
		c.n.say(history.StateChanged, c.id, e.Fence, e.From.String()+" "+e.To.String())
	case election.LeadershipAcquired:
		c.n.say(history.LeadershipAcquired, c.id, e.Fence, "")
	case election.LeadershipLost:
		c.n.say(history.LeadershipLost, c.id, e.Fence, e.Reason)
	case election.ElectionFailed:
		c.n.say(history.ElectionFailed, c.id, 0, e.Reason)
	case election.LeaderChanged:
		c.n.say(history.Leading, c.id, e.Fence, e.Leader)
	case election.HeartbeatStale:
		c.n.say(history.KindUnknown, c.id, 0, "heartbeatStale of "+e.Leader)
	case election.HeartbeatInvalid:
		c.n.say(history.KindUnknown, c.id, 0, "heartbeatInvalid of "+e.Leader+": "+e.Reason)
	case election.DuplicateInstance:
		c.n.say(history.KindUnknown, c.id, 0, "duplicateInstance: "+e.Reason)
	}
}
