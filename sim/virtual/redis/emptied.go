package redis

// Emptied is the state of Redis after redis-wipe or redis-flush; "" means EmptiedStarted.
type Emptied string

// The states. From EmptiedMoved on, redis-wipe makes the address lead to another server that has run for long.
const (
	EmptiedStarted  Emptied = "started"  // a process that has just started, or has a FLUSHALL in its statistics
	EmptiedByKeys   Emptied = "by-keys"  // redis-flush deletes the keys one by one
	EmptiedMoved    Emptied = "moved"    // no sign of use, so only instances on another machine notice
	EmptiedPromoted Emptied = "promoted" // a former replica
	EmptiedEvicted  Emptied = "evicted"  // has evicted keys
	EmptiedReset    Emptied = "reset"    // its statistics were reset
	EmptiedModule   Emptied = "module"   // has a module
	EmptiedForeign  Emptied = "foreign"  // has an epoch of another run
)

// Detected are the states that an instance at a loopback address notices.
var Detected = []Emptied{EmptiedStarted, EmptiedByKeys, EmptiedPromoted, EmptiedEvicted, EmptiedReset, EmptiedModule, EmptiedForeign}

type use struct {
	since   int64 // start on its own clock; 0: long ago
	scripts int64 // executed scripts
	flushed bool
	other   Emptied // other sign of use
}

func (u *use) moved(e Emptied) {
	if e != "" && e != EmptiedStarted && e != EmptiedByKeys {
		u.since, u.other = 0, e
	}
}
