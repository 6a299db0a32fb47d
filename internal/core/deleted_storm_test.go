package core_test

import (
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
)

// A lease whose key a foreign hand deleted, without its owner's knowing, is not taken from under an owner that can be asked:
// it has given up by then (G2). What is left to the exception of G1 are owners that cannot be heard.
func TestStormDeletedKeyIsNotTakenUnasked(t *testing.T) {
	taken := 0
	for seed := range uint64(100) {
		at := 11*time.Second + time.Duration(seed)*97*time.Millisecond
		r := play(t, calmFleet(4, 12), fault.Plan{Faults: []fault.Fault{
			{At: at, Kind: fault.KeyDelete, Target: fault.SessionTarget(1 + int(seed%12))},
		}}, seed)
		owner := map[string]string{}
		for _, e := range r.events {
			switch e.Kind {
			case history.Acquired:
				if was := owner[e.Session]; was != "" && was != e.Instance {
					t.Errorf("%s: at %v %s took %s while %s believed in it", r.name, time.Duration(e.T), e.Instance, e.Session, was)
				}
				if time.Duration(e.T) > start+at {
					taken++
				}
				owner[e.Session] = e.Instance
			case history.Lost, history.Released:
				owner[e.Session] = ""
			}
		}
	}
	if taken < 90 {
		t.Errorf("only %d of 100 leases were taken again: nothing was tried", taken)
	}
}
