package virtual

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/sim/guest"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/protocol"
)

// guestTarget is the address of the target for a guest.
const guestTarget = "10.0.0.2:80"

// clockCost is the virtual time that one reading of a clock takes, in ns.
const clockCost = 100

// guestNode runs an unmodified program as a process. It implements guest.Host: the program's connections carry bytes, and its standard
// output has the messages of the node protocol.
type guestNode struct {
	plainProgram
	n     *node
	prog  guest.Program // nil: it has ended
	state guest.State
	read  int64 // the program's last reading of the monotonic clock
	conns []*guestConn
	line  []byte             // incomplete line of standard output
	said  []protocol.Message // in this Run
	ready bool
}

func (g *guestNode) start() {
	cfg := &g.n.cfg
	timings, system := cfg.timings(), "polling"
	keys := protocol.Polling.Environment()
	if cfg.Lease != "" {
		system, keys = "election", protocol.Election(cfg.Lease, cfg.TTL)
	}
	servers := g.n.fleet.servers
	url := "redis://" + servers.all[0].addr().String() + "/0"
	env := slices.Concat(
		protocol.Timings(&timings), protocol.Node(g.n.name, system, url, "http://"+guestTarget), keys, servers.guestEnv(),
	)
	g.prog = cfg.Guest(env, g)
	g.resume()
}

// resume runs the program until it waits again.
func (g *guestNode) resume() {
	if g.prog == nil {
		return
	}
	g.state = g.prog.Run()
	g.report()
	switch {
	case g.state.Fell != "":
		g.n.fall = fall{hang: true, why: g.state.Fell}
		g.n.fallen()
	case g.state.Exited:
		g.exited(int64(g.state.Code))
	default:
		g.n.setTick()
	}
}

func (g *guestNode) exited(code int64) {
	n, wasReady := g.n, g.ready
	if n.draining {
		n.die(code, "asked")
		n.comeBack()
		return
	}
	n.die(code, "")
	n.note("%s ended by itself with code %d", n.name, code)
	if code == protocol.ExitTurnedAway && !wasReady { // as an orchestrator would
		n.after(int64(n.cfg.TTL)/10, n.spawn)
	}
}

func (g *guestNode) next() core.Time { return core.Time(g.state.Next) }
func (g *guestNode) tick()           { g.resume() }
func (*guestNode) leases() bool      { return false }

func (g *guestNode) drain() bool {
	g.prog.Signal()
	g.resume()
	return true
}

func (g *guestNode) died() {
	if g.prog == nil {
		return
	}
	g.prog.Kill()
	g.prog = nil
	for _, c := range g.conns {
		c.close()
	}
	g.conns = nil
}

// disconnect resets the connections to a server, or to all for nil.
func (g *guestNode) disconnect(from *server) {
	for _, c := range slices.Clone(g.conns) {
		if c.front != nil && (from == nil || c.server == from) {
			c.reset()
		}
	}
}

func (g *guestNode) conn(id int32) *guestConn {
	i := slices.IndexFunc(g.conns, func(c *guestConn) bool { return c.id == id })
	if i < 0 {
		return nil
	}
	return g.conns[i]
}

// Clock implements guest.Host.
func (g *guestNode) Clock() (mono, wall int64) {
	now := g.n.clock.Now(g.n.t)
	g.read = max(g.read+clockCost, int64(now.Mono))
	return g.read, now.Wall + g.read - int64(now.Mono)
}

// Random implements guest.Host.
func (g *guestNode) Random(p []byte) {
	for i := range p {
		p[i] = byte(g.n.load.Uint32())
	}
}

// Print implements guest.Host.
func (g *guestNode) Print(fd int32, p []byte) {
	if fd != 1 {
		if g.n.cfg.Output != nil {
			g.n.cfg.Output(g.n.name, p)
		}
		return
	}
	g.line = append(g.line, p...)
	for {
		line, rest, whole := bytes.Cut(g.line, []byte("\n"))
		if !whole {
			return
		}
		g.line = rest
		protocol.Read(bytes.NewReader(line), func(m protocol.Message) { g.said = append(g.said, m) }, func(shown string) {
			g.n.emit(history.Event{Kind: history.Malformed, Node: g.n.name, Reason: shown})
		})
	}
}

// report records what the program has said, in the order of its stamps: its threads may write in another one.
func (g *guestNode) report() {
	slices.SortStableFunc(g.said, func(a, b protocol.Message) int { return cmp.Compare(a.T, b.T) })
	for _, m := range g.said {
		g.say(m)
	}
	g.said = g.said[:0]
}

func (g *guestNode) say(m protocol.Message) {
	n, e := g.n, m.Event(g.n.name)
	switch {
	case e.Kind == history.Ready && !g.ready:
		g.ready, n.instance = true, e.Instance
		n.out.Ready++
	case e.Instance == "":
		e.Instance = n.instance
	case e.Instance != n.instance:
		n.emit(history.Event{Kind: history.Malformed, Node: n.name, Reason: fmt.Sprintf("%q is not its instance ID %q", e.Instance, n.instance)})
		return
	}
	if m.Until > 0 {
		e.Until = n.clock.When(n.t, core.Time(m.Until))
	}
	switch e.Kind {
	case history.Acquired, history.Renewed:
		n.fleet.said[e.Session] = n.slot
	case history.Lost, history.Released:
		if n.fleet.said[e.Session] == n.slot {
			delete(n.fleet.said, e.Session)
		}
	}
	n.emit(e)
}
