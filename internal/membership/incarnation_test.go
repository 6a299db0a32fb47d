package membership

import (
	"math"
	"testing"
)

// A living process is never taken for dead, whatever its name, and what another machine or container says proves nothing.
func TestFates(t *testing.T) {
	me := WhoAmI("w")
	if me.PID == 0 {
		t.Skip("this system does not tell")
	}
	later := me
	later.Start++
	nobody := me
	nobody.PID = math.MaxInt32 // beyond any pid_max
	reboot, elsewhere, unknown := later, later, later
	reboot.Boot, elsewhere.PIDNS, unknown.PID = "another", "another", 0
	for other, want := range map[Incarnation]Fate{
		me: Alive, later: Dead, nobody: Dead, reboot: Unknown, elsewhere: Unknown, unknown: Unknown, {}: Unknown,
	} {
		if got := me.FateOf(other); got != want {
			t.Errorf("%+v: %d, want %d", other, got, want)
		}
	}
	if (Incarnation{}).FateOf(Incarnation{}) != Unknown {
		t.Error("two of which nothing is known say something of each other")
	}
}
