package core

import (
	"github.com/leasestorm/leasestorm/internal/pause"
	"github.com/leasestorm/leasestorm/internal/term"
)

// pace delays requests of one kind after failures. It is the only delay of failed requests, so that a failure, however quickly Redis
// reports it, is not repeated at the speed of the network (G14).
type pace struct {
	failed int  // attempts in a row without effect
	at     Time // when the last of them failed
	until  Time // when the next may be sent
	silent bool // the last of them was not answered
}

// refusal records that Redis answers but refuses writes: READONLY, out of memory, an ACL.
type refusal struct {
	text string // its last error, "" if it refuses nothing
	at   Time   // when that error came
	from Time   // earlier errors are not reported: at most one in a renewal interval, and none that may be over
	told bool
}

// paces are the paces of all kinds, and what Redis refuses.
type paces struct {
	k     *term.Kernel // read only
	cfg   *pause.Config
	tells *tells

	of      [term.Kinds]pace // by OpKind
	slowed  Time             // no pace ends later
	refusal refusal
}

// setback records that in had no effect. Failures of attempts that were under way at the same time count as one. Probes have a pace
// of their own (probeLater), because a failed probe must not delay reads of leases.
func (p *paces) setback(in *inflight, silent bool) {
	of := &p.of[in.op.Kind]
	if in.op.Sent < of.at || in.probe {
		return
	}
	of.failed++
	of.at, of.silent = p.k.Now(), silent
	of.until = p.k.Now() + Time(p.cfg.Retry(of.failed))
	p.slowed = max(p.slowed, of.until)
}

// settled records an answered op. It reports whether the op had an effect after others of its kind had none. An acquisition has an effect
// only if it is granted.
func (p *paces) settled(in *inflight, a *Answer) (again bool) {
	switch {
	case a.Stale || in.op.Kind == OpSupersede: // or two reachable masters would be superseded in turn at network speed
		p.setback(in, false)
	case in.op.Kind != OpAcquire && !in.probe:
		return p.effective(in.op.Kind)
	}
	return false
}

// resume lets unanswered renewals, releases and leaves be repeated at once when Redis answers again. It keeps the count of failures, so
// that the pauses do not become shorter.
func (p *paces) resume() {
	for _, kind := range []OpKind{OpRenew, OpReassert, OpRelease, OpLeave} {
		if of := &p.of[kind]; of.silent {
			of.until = 0
		}
	}
}

// effective records that a request had an effect. It reports whether those before it had none.
func (p *paces) effective(kind OpKind) (again bool) {
	again = p.of[kind].failed > 0
	p.of[kind] = pace{}
	if p.refusal.text == "" || p.fails() {
		return again
	}
	if p.refusal.told {
		p.tells.tell(Tell{Kind: TellAccepting, Text: p.refusal.text})
	}
	p.refusal = refusal{}
	return again
}

// fails reports whether a write of any kind has failed within the last renewal interval and has not succeeded since. Older failures are
// of requests that are no longer repeated.
func (p *paces) fails() bool {
	for k := range p.of {
		if of := &p.of[k]; of.failed > 0 && OpKind(k).Writes() && p.k.Now()-of.at < Time(p.cfg.Renew) {
			return true
		}
	}
	return false
}

func (p *paces) paced(kind OpKind) bool { return p.of[kind].until > p.k.Now() }

// refusedBy keeps the error of a refused write. tellRefusing reports it once a read is answered; until then, Redis may refuse everything.
func (p *paces) refusedBy(in *inflight, a *Answer) {
	if a.Failure == FailRefused && a.Epoch == "" && in.op.Kind.Writes() { // with an epoch, it is reject that refused
		p.refusal.text, p.refusal.at = a.Text, p.k.Now()
	}
}

// tellRefusing reports a refusal with the time of the refusal. While refusals go on, it repeats the report no sooner than at the
// next renewal, renew.
func (p *paces) tellRefusing(renew Time) {
	if r := &p.refusal; r.text != "" && r.at >= r.from {
		r.told, r.from = true, max(renew, r.at+1)
		p.tells.tell(Tell{Kind: TellRefusing, Text: r.text})
		p.tells.all[len(p.tells.all)-1].At = r.at
	}
}
