package membership

import (
	"io/fs"
	"math"
	"os"
	"syscall"
	"testing"
)

// A living process is never dead, whatever its name. A process on another machine or in another container is unknown.
func TestFates(t *testing.T) {
	me := WhoAmI("w")
	if me.PID == 0 {
		t.Skip("this system does not tell")
	}
	later := me
	later.Start++
	nobody := me
	nobody.PID = math.MaxInt32 // beyond any pid_max
	reboot, elsewhere, otherTime, unknown := later, later, later, later
	reboot.Boot, elsewhere.PIDNS, otherTime.Time, unknown.PID = "another", "another", "another", 0
	for other, want := range map[Incarnation]Fate{
		me: Alive, later: Dead, nobody: Dead, reboot: Unknown, elsewhere: Unknown, otherTime: Unknown, unknown: Unknown, {}: Unknown,
	} {
		if got := me.FateOf(other); got != want {
			t.Errorf("%+v: %d, want %d", other, got, want)
		}
	}
	if (Incarnation{}).FateOf(Incarnation{}) != Unknown {
		t.Error("two of which nothing is known say something of each other")
	}
}

// A process that /proc hides is not dead. Otherwise a worker would delete its leases while it uses them.
func TestHiddenProcessesAreNotDead(t *testing.T) {
	const began = 7
	for what, c := range map[string]struct {
		start  uint64
		ended  bool
		read   error
		signal error
		want   Fate
	}{
		"it runs":                 {7, false, nil, nil, Alive},
		"it has ended":            {7, true, nil, nil, Dead},
		"another runs":            {8, false, nil, nil, Dead},
		"nobody":                  {0, false, fs.ErrNotExist, os.ErrProcessDone, Dead},
		"hidden, another user's":  {0, false, fs.ErrNotExist, syscall.EPERM, Unknown},
		"hidden, the same user's": {0, false, fs.ErrNotExist, nil, Unknown},
		"not to be read":          {0, false, fs.ErrPermission, os.ErrProcessDone, Unknown},
	} {
		if got := fate(began, c.start, c.ended, c.read, func() error { return c.signal }); got != c.want {
			t.Errorf("%s: %d, want %d", what, got, c.want)
		}
	}
}
