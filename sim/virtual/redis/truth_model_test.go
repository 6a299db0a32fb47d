package redis

import (
	"fmt"
	"slices"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/sim/fault"
)

// modelSide is the model.
type modelSide struct {
	r     *Server
	op    func(*Server, *core.Op)               // if not nil, makes an op another one,
	then  func(*Server, *core.Op, *core.Answer) // and this what came of it: the model is wrong on purpose
	heard []core.Notice
	seen  []string // what a replica would see
}

func newModelSide(scripts bool) *modelSide {
	m := &modelSide{}
	show := func(c Change) { m.seen = append(m.seen, fmt.Sprintf("%+v", c)) }
	m.r = New(Config{
		Options: redisstore.Options{Quarantine: quarantineMs * time.Millisecond}, Lua: scripts,
		Wrote: show, Publish: func(n core.Notice) { m.heard = append(m.heard, n) },
	}, nil)
	return m
}

func (m *modelSide) do(us int64, op *core.Op, sessions *core.Sessions) core.Answer {
	m.r.SetSessions(sessions)
	var a core.Answer
	bent := *op
	bent.Items = slices.Clone(op.Items)
	if m.op != nil {
		m.op(m.r, &bent)
	}
	m.r.Do(us*1000, &bent, &a)
	if m.then != nil {
		m.then(m.r, &bent, &a)
	}
	return a
}

func (m *modelSide) command(us int64, args ...string) (int64, Reply) {
	m.r.dirty = false
	return us, m.r.command(us*1000, args[0], args[1:])
}

func (m *modelSide) spoil(name string) { m.r.spoil(m.r.keyAt(name)) }

func (m *modelSide) restart(run string, empty bool) string {
	m.r.restart()
	m.r.RunID, m.r.refusals = run, refusals{}
	if empty {
		m.r.flush()
	}
	return run
}

func (m *modelSide) forget() {}

func (m *modelSide) refuse(what string, on bool) {
	switch r := &m.r.refusals; what {
	case "read-only":
		r.Readonly = oneIf(on)
	case "full":
		r.Full = oneIf(on)
	case "unsaved":
		r.Unsaved = oneIf(on)
	case "lonely":
		r.Lonely = oneIf(on)
	default:
		*map[string]*int{fault.DenySet: &r.NoSet, fault.DenyFences: &r.NoFences, fault.DenyLeases: &r.NoLeases}[what] = oneIf(on)
	}
}

func oneIf(on bool) int {
	if on {
		return 1
	}
	return 0
}

func (m *modelSide) notices() []core.Notice {
	heard := m.heard
	m.heard = nil
	return heard
}

func (m *modelSide) keys(us int64) map[string]value {
	keys := map[string]value{}
	for _, name := range universe {
		v := m.r.get(m.r.keyAt(name), us/1000)
		if v.there {
			keys[name] = v
		}
	}
	return keys
}
