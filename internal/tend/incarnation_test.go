package tend

import "testing"

// A living process is never taken for dead, whatever its name.
func TestTheLivingAreNotProvenDead(t *testing.T) {
	me := WhoAmI("w")
	if me.PID == 0 {
		t.Skip("this system does not tell")
	}
	if me.ProvenDead(me) {
		t.Error("this process is proven dead")
	}
	later := me
	later.Start++
	reboot := later
	reboot.Boot = "another"
	elsewhere := later
	elsewhere.PIDNS = "another"
	unknown := later
	unknown.PID = 0
	if !me.ProvenDead(later) || me.ProvenDead(reboot) || me.ProvenDead(elsewhere) || me.ProvenDead(unknown) ||
		(Incarnation{}).ProvenDead(Incarnation{}) {
		t.Error("the proof does not hold")
	}
}
