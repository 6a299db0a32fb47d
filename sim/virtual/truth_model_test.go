package virtual

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
	r     *redis
	op    func(*redis, *core.Op)               // if not nil, makes an op another one,
	then  func(*redis, *core.Op, *core.Answer) // and this what came of it: the model is wrong on purpose
	heard []core.Notice
	seen  []string // what a replica would see
}

func newModelSide(scripts bool) *modelSide {
	m := &modelSide{}
	show := func(c change) { m.seen = append(m.seen, fmt.Sprintf("%+v", c)) }
	m.r = newRedis(redisConfig{
		Options: redisstore.Options{Quarantine: quarantineMs * time.Millisecond}, Lua: scripts,
		Wrote: show, Publish: func(n core.Notice) { m.heard = append(m.heard, n) },
	})
	return m
}

func (m *modelSide) do(us int64, op *core.Op, sessions *core.Sessions) core.Answer {
	m.r.setSessions(sessions)
	var a core.Answer
	bent := *op
	bent.Items = slices.Clone(op.Items)
	if m.op != nil {
		m.op(m.r, &bent)
	}
	m.r.do(us*1000, &bent, &a)
	if m.then != nil {
		m.then(m.r, &bent, &a)
	}
	return a
}

func (m *modelSide) command(us int64, args ...string) (int64, reply) {
	m.r.dirty = false
	return us, m.r.command(us*1000, args[0], args[1:])
}

func (m *modelSide) spoil(name string) { m.r.spoil(m.r.keyAt(name)) }

func (m *modelSide) restart(run string, empty bool) string {
	m.r.restart()
	m.r.runID, m.r.refusals = run, refusals{}
	if empty {
		m.r.flush()
	}
	return run
}

func (m *modelSide) forget() {}

func (m *modelSide) refuse(what string, on bool) {
	switch r := &m.r.refusals; what {
	case "read-only":
		r.readonly = oneIf(on)
	case "full":
		r.full = oneIf(on)
	case "unsaved":
		r.unsaved = oneIf(on)
	case "lonely":
		r.lonely = oneIf(on)
	default:
		*map[string]*int{fault.DenySet: &r.noSet, fault.DenyFences: &r.noFences, fault.DenyLeases: &r.noLeases}[what] = oneIf(on)
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
