package check

import "github.com/leasestorm/leasestorm/sim/history"

// e4 judges that a new leader exists within TTL + 250 ms of a crash or partition, and within 250 ms of a clean stop.
//
// It combines G5, extended to partitions, and G13: the verdict is the worse of the two against its own limit. Nobody can lead before the
// quarantine after a loss of data is over, so instances must also notice a loss in time.
type e4 struct {
	hooks
	failover g5
	handover g13
}

func (g *e4) attach(w *world, v Verdict) {
	g.failover.partitions = true
	g.failover.attach(w, v)
	g.findings, g.handover.findings = g.failover.findings, g.failover.findings
	g.hooks.attach(w, v)
	g.handover.attach(w, v)
	g.handover.beatless = true
}

func (g *e4) event(e *history.Event)  { g.failover.event(e); g.handover.event(e) }
func (g *e4) began(t *term)           { g.failover.began(t); g.handover.began(t) }
func (g *e4) ended(t *term, h ending) { g.failover.ended(t, h); g.handover.ended(t, h) }
func (g *e4) injected(inj *injection) {
	g.failover.injected(inj)
	g.handover.injected(inj)
	g.lost(inj)
}
func (g *e4) healed(inj *injection) { g.failover.healed(inj); g.handover.healed(inj) }
func (g *e4) finish()               { g.failover.finish(); g.handover.finish() }

// lost judges whether an instance notices a loss of data in time. Each reads the leader key once per election interval, and a script that
// finds it gone begins the epoch. If a replica took over, the key exists, and the next request begins the quarantine.
func (g *e4) lost(inj *injection) {
	w := g.w
	if inj.did != didPlan || !inj.forgets() || w.Foreign || w.servers.epoch.value == "" {
		return
	}
	within, was := w.electionInterval()+int64(FailoverAllowance), w.servers.epoch.value
	base := func() int64 {
		if inj.lasts() || w.servers.epoch.down {
			return w.now
		}
		return w.fleet.availableSince(inj.To)
	}
	g.expect(wait{
		now: func() promise {
			return promise{from: inj.From, base: base(), by: base() + within, settle: within, anybody: true, but: inj}
		},
		pending: func() bool { // else another epoch began while Redis was not watched, or an older one is back
			return inj.detectedAt == 0 && (w.servers.epoch.value == was || w.servers.epoch.value == "")
		},
		missed: func(limit int64) {
			g.breach(breach{from: inj.From, due: w.now, size: limit, by: inj}, "%s took Redis its data, and nobody had noticed %d ms later: "+
				"the quarantine that follows begins when somebody does", inj, ms(limit))
		},
	})
}
