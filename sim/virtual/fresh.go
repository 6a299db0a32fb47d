package virtual

import (
	"fmt"
	"strings"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/redisstore"
)

// Emptied is what redis-wipe or redis-flush leaves at the address of Redis; "" as EmptiedStarted.
type Emptied string

// What is left. From EmptiedMoved on, redis-wipe has the address lead to another server, which has run for long.
const (
	EmptiedStarted  Emptied = "started"  // a process that has just started, or one with a FLUSHALL in its statistics
	EmptiedByKeys   Emptied = "by-keys"  // redis-flush deletes the keys one by one
	EmptiedMoved    Emptied = "moved"    // it shows no sign of use, so only instances on another machine notice
	EmptiedPromoted Emptied = "promoted" // it was a replica
	EmptiedEvicted  Emptied = "evicted"  // it evicted keys
	EmptiedReset    Emptied = "reset"    // its statistics were reset
	EmptiedModule   Emptied = "module"   // it has a module
	EmptiedForeign  Emptied = "foreign"  // it holds an epoch of another run
)

// Detected are those that an instance notices at a loopback address.
var Detected = []Emptied{EmptiedStarted, EmptiedByKeys, EmptiedPromoted, EmptiedEvicted, EmptiedReset, EmptiedModule, EmptiedForeign}

// use is what INFO shows of a process' life.
type use struct {
	since   int64 // when it started, by its own clock; 0: long ago
	scripts int64 // that it executed
	flushed bool
	other   Emptied // what else shows
}

func (u *use) moved(e Emptied) {
	if e != "" && e != EmptiedStarted && e != EmptiedByKeys {
		u.since, u.other = 0, e
	}
}

func (r *redis) uptime(t int64) int64 { return (r.clock.wallAt(t) - r.use.since) / int64(time.Second) }

// executed counts a script for commandstats. A failed one counts as failed.
func (r *redis) executed(op *core.Op, a *core.Answer) {
	if r.lua == nil && a.Failure == core.FailNone && op.Kind != core.OpAsk {
		r.use.scripts++
	}
}

// everything is the part of INFO everything that doubt.lua reads.
func (r *redis) everything(t int64) string {
	var b strings.Builder
	for _, f := range r.shown() {
		if f.name != "connected_slaves" && f.name != "sync_full" { // which each INFO has
			fmt.Fprintf(&b, "%s:%s\r\n", f.name, f.value)
		}
	}
	fmt.Fprintf(&b, "uptime_in_seconds:%d\r\n# Modules\r\n", r.uptime(t))
	if r.use.other == EmptiedModule {
		b.WriteString("module:name=search\r\n")
	}
	b.WriteString("# Commandstats\r\ncmdstat_info:calls=1,usec=1,usec_per_call=1.00,rejected_calls=0,failed_calls=0\r\n")
	for _, c := range r.called() {
		fmt.Fprintf(&b, "cmdstat_%s:calls=%d,usec=1,usec_per_call=1.00,rejected_calls=0,failed_calls=1\r\n", c.name, c.calls+1)
	}
	return b.String()
}

type field struct{ name, value, want string }

func (r *redis) shown() []field {
	role, replid2, offset, evicted := "master", strings.Repeat("0", 40), "-1", "0"
	if r.readonly > 0 {
		role = "slave"
	}
	switch r.use.other {
	case EmptiedPromoted:
		replid2, offset = strings.Repeat("1", 40), "1"
	case EmptiedEvicted:
		evicted = "1"
	}
	return []field{
		{"role", role, "master"}, {"cluster_enabled", "0", "0"}, {"master_replid2", replid2, strings.Repeat("0", 40)},
		{"second_repl_offset", offset, "-1"}, {"connected_slaves", fmt.Sprint(r.connected), "0"}, {"sync_full", fmt.Sprint(r.syncFull), "0"},
		{"loading", "0", "0"}, {"evicted_keys", evicted, "0"},
	}
}

type called struct {
	name  string
	calls int64
}

// called are the commands of the process that tell of its use.
func (r *redis) called() (all []called) {
	if r.use.scripts > 0 {
		all = append(all, called{"evalsha", r.use.scripts})
	}
	if r.use.flushed {
		all = append(all, called{"flushall", 0})
	}
	if r.use.other == EmptiedReset {
		all = append(all, called{"config|resetstat", 0})
	}
	return all
}

// doubt is doubt.lua, and when epoch.lua calls it: how much of a quarantine of length µs an epoch needs that op begins, and why, if op's
// caller may take Redis for new.
func (r *redis) doubt(t int64, op *core.Op, length int64) (wait int64, why string) {
	wait = length
	var condition string
	switch {
	case r.epoch != "" && (op.Epoch != "" || !r.local): // what always has a quarantine
		return length, ""
	case r.epoch != "":
		condition = "a"
	case !r.local:
		condition = "c"
	case op.Epoch != "":
		condition = "b"
	default:
		condition, wait, why = r.signs(t, op, length)
	}
	if r.seams.Begun != nil {
		r.seams.Begun(condition, r.lost)
	}
	return wait, why
}

// signs returns the condition that fails, how much of a quarantine that costs, and what shows it.
func (r *redis) signs(t int64, op *core.Op, length int64) (condition string, wait int64, why string) {
	for _, name := range r.named(t, op) {
		if v := r.get(r.keyAt(name), r.nowMs(t)); v.there || v.foreign {
			return "a", length, "the key " + name + " exists"
		}
	}
	if r.use.other == EmptiedModule {
		return "e", length, "a module is loaded"
	}
	if called := r.called(); len(called) > 0 {
		return "e", length, called[0].name + " was called"
	}
	for _, f := range r.shown() {
		if f.value != f.want {
			return "d", length, "INFO shows " + f.name + ":" + f.value
		}
	}
	if left := length - max(0, r.uptime(t)-1)*1_000_000; left > 0 {
		return "f", left, fmt.Sprintf("it was started %d s ago", r.uptime(t))
	}
	return "", 0, ""
}

// named are the keys of op's script, but for the epoch.
func (r *redis) named(t int64, op *core.Op) []string {
	keys := []string{r.names.group()}
	if op.Kind != core.OpLook {
		all := r.wire().Call(op).Keys
		return append(keys, all[1:len(all)-1]...)
	}
	for _, id := range r.sessionSet.IDs[:min(len(r.sessionSet.IDs), redisstore.LookChunk)] {
		keys = append(keys, r.names.lease+id)
	}
	if len(keys) == 1 {
		for _, i := range r.scan(r.nowMs(t)) {
			keys = append(keys, r.names.node+r.beats[i].id)
		}
	}
	return keys
}
