package real

import (
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/real/proxy"
)

func (inj *injection) effect() proxy.Effect {
	hold := proxy.Network{Hold: true}
	ms := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
	both := proxy.Network{}
	switch inj.Kind {
	case fault.Cut, fault.Flapping:
		return proxy.Effect{Cut: true}
	case fault.RequestsLost:
		return proxy.Effect{Up: hold}
	case fault.RepliesLost:
		return proxy.Effect{Down: hold}
	case fault.BlackHole:
		both = hold
	case fault.Latency:
		both = proxy.Network{Latency: ms(inj.Ms), Jitter: ms(min(inj.Jitter, inj.Ms))}
	case fault.Bandwidth:
		both = proxy.Network{Rate: max(1, inj.KBps) * 1024}
	case fault.Fragments:
		both = proxy.Network{Fragments: true}
	}
	return proxy.Effect{Up: both, Down: both}
}

func (inj *injection) network() {
	at := inj.slot(inj.Target)
	if at == nil {
		inj.skip("there is no such node")
		return
	}
	inj.begin()
	inj.failed(at.way.Apply(inj.n, inj.effect()))
	inj.last()
	inj.failed(at.way.Heal(inj.n))
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
		inj.failed(at.way.Apply(inj.n, inj.effect()))
		more := inj.pause(min(every, left))
		inj.failed(at.way.Heal(inj.n))
		if !more || !inj.pause(max(0, min(every, time.Until(end)))) {
			break
		}
	}
	inj.end()
}
