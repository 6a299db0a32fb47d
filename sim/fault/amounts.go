package fault

import "time"

func (d *drawer) fill(f *Fault) {
	r := f.Kind.row()
	if r.takes&(takesFor|mayFor) == 0 {
		f.For = 0
	}
	if r.takes&takesFor != 0 {
		f.For = max(f.For, 10*time.Millisecond)
	}
	if r.amounts != nil {
		r.amounts(d, f)
	}
}

func (d *drawer) ms(lo, hi time.Duration) int64 { return max(1, d.between(lo, hi).Milliseconds()) }

func delaying(d *drawer, f *Fault) {
	f.Ms = d.ms(5*time.Millisecond, d.p.TTL*8/100)
	f.Jitter = f.Ms / 2
}

func narrowing(d *drawer, f *Fault) { f.KBps = 1 + d.rng.Int64N(16) }

func flapping(d *drawer, f *Fault) { f.Ms = d.ms(d.p.Renew/10, d.p.Renew) }

func blocking(d *drawer, f *Fault) { f.Ms = d.ms(d.p.TTL/100, d.p.TTL/10) }

func loadingFor(d *drawer, f *Fault) { f.Ms = max(1, d.p.Renew.Milliseconds()) }

func reordering(d *drawer, f *Fault) { f.Ms = d.ms(d.p.TTL/100, d.p.TTL/4) }

func serving(d *drawer, f *Fault) { f.Ms = d.ms(d.p.PollTimeout/4, d.p.PollTimeout*8/10) }

func added(d *drawer, f *Fault) { f.Ms = 1 + d.rng.Int64N(int64(max(1, d.p.Sessions/20))) }

func denying(d *drawer, f *Fault) { f.Deny = denials[d.rng.IntN(len(denials))] }

func stepping(d *drawer, f *Fault) { f.Ms, f.Jitter = d.ms(d.p.TTL/100, d.p.TTL*2), d.rng.Int64N(2) }

// drifting draws a rate error in parts per million, fast or slow, within the margin.
func drifting(d *drawer, f *Fault) { f.Ms, f.Jitter = 1+d.rng.Int64N(5_000), d.rng.Int64N(2) }

func failingOverAgain(d *drawer, f *Fault) { f.Ms = d.ms(d.p.TTL/100, d.p.TTL) }

// The drawn lag sometimes exceeds the timeout of a renewal.
func lagging(d *drawer, f *Fault) { f.Ms = d.ms(d.p.TTL/1000, d.p.TTL/4) }

// failingOver draws the replica's lag and the maximum error of its clock.
func failingOver(d *drawer, f *Fault) {
	f.Ms, f.Jitter = d.ms(d.p.TTL/100, d.p.TTL), d.ms(d.p.TTL/100, d.p.TTL/2)
}
