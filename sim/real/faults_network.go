package real

import (
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
)

func (inj *injection) effect() effect {
	hold := network{hold: true}
	ms := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
	both := network{}
	switch inj.Kind {
	case fault.Cut, fault.Flapping:
		return effect{cut: true}
	case fault.RequestsLost:
		return effect{up: hold}
	case fault.RepliesLost:
		return effect{down: hold}
	case fault.BlackHole:
		both = hold
	case fault.Latency:
		both = network{latency: ms(inj.Ms), jitter: ms(min(inj.Jitter, inj.Ms))}
	case fault.Bandwidth:
		both = network{rate: max(1, inj.KBps) * 1024}
	case fault.Fragments:
		both = network{fragments: true}
	}
	return effect{up: both, down: both}
}

func (inj *injection) network() {
	at := inj.slot(inj.Target)
	if at == nil {
		inj.skip("there is no such node")
		return
	}
	inj.begin()
	inj.failed(at.way.apply(inj.n, inj.effect()))
	inj.last()
	inj.failed(at.way.heal(inj.n))
	inj.end()
}

func (inj *injection) flapping() {
	at := inj.slot(inj.Target)
	if at == nil {
		inj.skip("there is no such node")
		return
	}
	inj.begin()
	every := max(time.Duration(inj.Ms)*time.Millisecond, 10*time.Millisecond)
	end := time.Now().Add(inj.For)
	for left := inj.For; left > 0; left = time.Until(end) {
		inj.failed(at.way.apply(inj.n, inj.effect()))
		more := inj.pause(min(every, left))
		inj.failed(at.way.heal(inj.n))
		if !more || !inj.pause(max(0, min(every, time.Until(end)))) {
			break
		}
	}
	inj.end()
}
