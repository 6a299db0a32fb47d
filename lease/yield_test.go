package lease

import (
	"testing"
	"testing/synctest"

	"github.com/leasestorm/leasestorm/internal/core"
)

// If an answer crosses EventKept, it counts as little as an answer to an earlier yield, whether the work continues or has not ended yet.
func TestAYieldThatIsOffIsAnsweredInVain(t *testing.T) { // G9
	synctest.Test(t, func(t *testing.T) {
		r := newFakeRedis()
		g := newRig(t, r, "a", true, nil)
		h, err := g.keeperOf().Acquire(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		told := func(kinds ...core.TellKind) {
			for _, k := range kinds {
				g.shell.loop.carry([]core.Tell{{Kind: k, ID: h.Name(), Fence: h.Fence(), At: g.shell.now().Mono, Cause: core.CauseRequested}})
			}
		}
		for _, tt := range []struct {
			name          string
			before, after []core.TellKind // the answer
			gone          bool
		}{
			{"nobody asks", nil, nil, false},
			{"it is off", []core.TellKind{core.TellYield}, []core.TellKind{core.TellKept}, false},
			{"it is off, and asked anew", []core.TellKind{core.TellYield}, []core.TellKind{core.TellKept, core.TellYield}, false},
			{"it was off before", []core.TellKind{core.TellKept}, nil, false},
			{"it stands", []core.TellKind{core.TellYield}, nil, true},
		} {
			g.shell.inbox.put(message{run: func() {
				told(tt.before...)
				innerLease{h}.Yield() // arrives after all events here
				told(tt.after...)
			}})
			synctest.Wait()
			pass(1)
			if gone := r.owner("job") == ""; gone != tt.gone || h.Valid() == tt.gone {
				t.Errorf("%s: given back %v, want %v; valid %v", tt.name, gone, tt.gone, h.Valid())
			}
		}
	})
}
