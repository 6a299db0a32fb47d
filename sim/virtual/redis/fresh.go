package redis

import (
	"fmt"
	"strings"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/redisstore"
)

// Emptied is the state of Redis after redis-wipe or redis-flush; "" means EmptiedStarted.
type Emptied string

// Detected are the states that an instance at a loopback address notices.
var Detected = []Emptied{EmptiedStarted, EmptiedByKeys, EmptiedPromoted, EmptiedEvicted, EmptiedReset, EmptiedModule, EmptiedForeign}

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

// twin has the scripts' twins in Go.
type twin struct{ *Server }

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

func (r *Server) uptime(t int64) int64 { return (r.Clock.WallAt(t) - r.use.since) / int64(time.Second) }

// executed counts a successful script for commandstats.
func (r twin) executed(op *core.Op, a *core.Answer) {
	if !r.Config.Lua && a.Failure == core.FailNone && op.Kind != core.OpAsk {
		r.use.scripts++
	}
}

// everything returns the part of INFO everything that doubt.lua reads.
func (r *Server) everything(t int64) string {
	var b strings.Builder
	for _, f := range r.shown() {
		if f.name != "connected_slaves" && f.name != "sync_full" { // every INFO has these
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

func (r *Server) shown() []field {
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
	return []field{
		{"role", role, "master"}, {"cluster_enabled", "0", "0"}, {"master_replid2", replid2, strings.Repeat("0", 40)},
		{"second_repl_offset", offset, "-1"}, {"connected_slaves", fmt.Sprint(r.Connected), "0"}, {"sync_full", fmt.Sprint(r.SyncFull), "0"},
		{"loading", "0", "0"}, {"evicted_keys", evicted, "0"},
	}
}

type called struct {
	name  string
	calls int64
}

// called returns the commands that prove earlier use of the process.
func (r *Server) called() (all []called) {
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

// doubt is doubt.lua, and epoch.lua's condition for it. It returns how much of a quarantine of length µs the epoch begun by op needs, and
// the reason if op's caller may regard Redis as new.
func (r twin) doubt(t int64, op *core.Op, length int64) (wait int64, why string) {
	wait = length
	var condition string
	switch {
	case r.Epoch != "" && (op.Epoch != "" || !r.Config.Local): // such an epoch always has a quarantine
		return length, ""
	case r.Epoch != "":
		condition = "a"
	case !r.Config.Local:
		condition = "c"
	case op.Epoch != "":
		condition = "b"
	default:
		condition, wait, why = r.signs(t, op, length)
	}
	if r.Config.Begun != nil {
		r.Config.Begun(condition, r.lost)
	}
	return wait, why
}

// signs returns the condition that fails, the required quarantine in µs, and the sign.
func (r twin) signs(t int64, op *core.Op, length int64) (condition string, wait int64, why string) {
	for _, name := range r.named(t, op) {
		if v := r.get(r.keyAt(name), r.NowMs(t)); v.there || v.foreign {
			return "a", length, "the key " + name + " exists"
		}
	}
	if r.use.other == EmptiedModule {
		return "e", length, "a module is loaded"
	}
	if called := r.called(); len(called) > 0 {
		return "e", length, "it has executed " + strings.ToUpper(called[0].name)
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

func (r twin) named(t int64, op *core.Op) []string {
	keys := []string{r.groupKey()}
	if op.Kind != core.OpLook {
		all := r.wire.Call(op).Keys
		return append(keys, all[1:len(all)-1]...)
	}
	for _, id := range r.sessionSet.IDs[:min(len(r.sessionSet.IDs), redisstore.LookChunk)] {
		keys = append(keys, r.Config.LeasePrefix+id)
	}
	if len(keys) == 1 {
		for _, i := range r.scan(r.NowMs(t)) {
			keys = append(keys, r.Config.NodePrefix+r.beats[i].id)
		}
	}
	return keys
}
