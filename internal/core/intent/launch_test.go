package intent

import (
	"slices"
	"testing"

	"github.com/leasestorm/leasestorm/internal/core"
)

// A launch that hangs while a lease of it is lost has as long to end as what runs, from the first loss on. Then its leases are left to
// expire, its session has failed, and another start has its turn; what begins after all is asked to end. One that ends before in doubt
// begins anew.
func TestLaunchThatHangsWithoutItsLeases(t *testing.T) { // I1, I3, I5
	for _, c := range []struct {
		name   string
		launch Launched // 0: it hangs
		want   []EffectKind
		late   Launched
		after  []EffectKind
	}{
		{"in doubt", LaunchDoubt, nil, 0, nil}, // there is nothing to be released, and it sleeps
		{"it begins", LaunchOK, []EffectKind{Halt}, 0, nil},
		{"it hangs, and begins", 0, []EffectKind{Abandon, Write}, LaunchOK, []EffectKind{Halt}},
		{"it hangs, and fails", 0, []EffectKind{Abandon, Write}, LaunchFail, []EffectKind{Forget}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := machineOf(Config{Worker: "w", Slots: []string{"1", "2"}, StopTimeout: int64(1000 * ms), Retry: int64(10 * ms), Starting: 1})
			now := core.Time(0)
			var last []Effect
			tell := func(e Event, want ...EffectKind) {
				t.Helper()
				if e.Session == "" {
					e.Session = "a"
				}
				e.Now = now
				var kinds []EffectKind
				for _, effect := range m.Step(e) {
					last = append(last, effect)
					kinds = append(kinds, effect.Kind)
				}
				if !slices.Equal(kinds, want) {
					t.Fatalf("at %d %+v leads to %v, want %v: %+v", now, e, kinds, want, last)
				}
			}
			service, slot := serviceLease("a"), slotLease("1")
			granted := func(lease string) Event {
				return Event{Kind: EvLease, Lease: lease, Outcome: Granted, Fence: 1, Until: 5000 * ms}
			}
			ok := Event{Kind: EvWritten, Wrote: WroteOK}
			tell(Event{Kind: EvEntry, Entry: Entry{ID: "1", Session: "a", Service: "a", Tries: 1}}, Acquire)
			tell(Event{Kind: EvEntry, Entry: Entry{ID: "2", Session: "b", Service: "b", Tries: 1}}) // waits for its turn
			tell(granted(service), Acquire)
			tell(granted(slot), Write)
			tell(ok, Launch)
			tell(Event{Kind: EvLost, Lease: service, Fence: 1})
			now += 600 * ms
			tell(Event{Kind: EvLost, Lease: slot, Fence: 1})
			now += 399 * ms
			tell(Event{Kind: EvTick})
			if c.launch != 0 {
				tell(Event{Kind: EvLaunched, Launch: c.launch}, c.want...)
				return
			}
			now += ms
			tell(Event{Kind: EvTick}, c.want...)
			if e := last[len(last)-1]; e.State != Ended || e.Reason != PipelineFailed || e.Ack != "1" {
				t.Errorf("it is written %+v", e)
			}
			tell(ok, Acquire) // b's
			if e := last[len(last)-1]; e.Session != "b" {
				t.Errorf("%+v", e)
			}
			tell(Event{Kind: EvLaunched, Launch: c.late}, c.after...)
			if c.late == LaunchOK {
				tell(Event{Kind: EvReturned}, Forget)
			}
		})
	}
}
