package redis

import (
	"fmt"
	"strings"
	"time"
)

// Emptied is the state of Redis after redis-wipe or redis-flush; "" means EmptiedStarted.
type Emptied string

type use struct {
	since   int64 // start on its own clock; 0: long ago
	scripts int64 // executed scripts
	flushed bool
	other   Emptied // other sign of use
}

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

// Empty deletes all keys of a server that has just started, and leaves it in the state e.
func (r *Server) Empty(e Emptied) {
	r.flush()
	r.Moved(e)
	if e == EmptiedForeign {
		r.Epoch = "another 0"
	}
}

// Moved makes the address lead to another server, in the state e.
func (r *Server) Moved(e Emptied) {
	if e != "" && e != EmptiedStarted && e != EmptiedByKeys {
		r.use.since, r.use.other = 0, e
	}
}

// FlushAll deletes all keys, as a command or key by key.
func (r *Server) FlushAll(e Emptied) {
	r.flush()
	r.use.flushed = r.use.flushed || e != EmptiedByKeys
}

// everything returns the part of INFO everything that doubt.lua reads and other INFO texts lack.
func (r *Server) everything(t int64) string {
	role, replid2, offset, evicted := "master", strings.Repeat("0", 40), "-1", "0"
	if r.Readonly > 0 {
		role = "slave"
	}
	switch r.use.other {
	case EmptiedPromoted:
		replid2, offset = strings.Repeat("1", 40), "1"
	case EmptiedEvicted:
		evicted = "1"
	}
	uptime := (r.Clock.WallAt(t) - r.use.since) / int64(time.Second)
	var b strings.Builder
	fmt.Fprintf(&b, "role:%s\r\ncluster_enabled:0\r\nmaster_replid2:%s\r\nsecond_repl_offset:%s\r\nloading:0\r\nevicted_keys:%s\r\n"+
		"uptime_in_seconds:%d\r\n# Modules\r\n", role, replid2, offset, evicted, uptime)
	if r.use.other == EmptiedModule {
		b.WriteString("module:name=search\r\n")
	}
	b.WriteString("# Commandstats\r\n")
	called := func(command string, calls, failed int64) {
		fmt.Fprintf(&b, "cmdstat_%s:calls=%d,usec=1,usec_per_call=1.00,rejected_calls=0,failed_calls=%d\r\n", command, calls, failed)
	}
	called("info", 1, 0)
	if r.use.scripts > 0 {
		called("evalsha", r.use.scripts+1, 1)
	}
	if r.use.flushed {
		called("flushall", 1, 0)
	}
	if r.use.other == EmptiedReset {
		called("config|resetstat", 1, 0)
	}
	return b.String()
}
