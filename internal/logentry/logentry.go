// Package logentry defines the log entries of the library (G12): which tells of the core become a structured entry, with which level,
// message and fields. It is pure. Therefore the production shell, which writes entries, and the virtual engine, which checks them, have
// the same ones.
package logentry

import (
	"strings"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
)

// Level is an entry's level. Its numbers are those of zapcore.Level.
type Level int8

// The levels.
const (
	Info Level = iota
	Warn
)

// String returns the name of the level in a log.
func (l Level) String() string { return [...]string{"info", "warn"}[l] }

type form struct {
	event   string
	level   Level
	message string
	lease   bool // it is about one lease; else about the instance
}

var forms = [...]form{
	core.TellAcquired:      {"acquired", Info, "Lease acquired", true},
	core.TellRenewed:       {"renewed", Info, "Lease renewed", true},
	core.TellUncertain:     {"renewFailed", Warn, "Lease renewal failed", true},
	core.TellLost:          {"lost", Warn, "Lease lost", true},
	core.TellReleased:      {"released", Info, "Lease released", true},
	core.TellRefused:       {"acquireFailed", Info, "Lease not acquired", true},
	core.TellReleaseFailed: {"releaseFailed", Warn, "Lease release not confirmed", true},
	core.TellYield:         {"yield", Info, "Acquiring lease", true},
	core.TellKept:          {"kept", Info, "Lease kept", true},

	core.TellEpoch:     {"epoch", Info, "Redis has a new epoch", false},
	core.TellClock:     {"clock", Warn, "A clock stepped", false},
	core.TellRejected:  {"epochRejected", Warn, "Redis has an epoch that is not trusted; requesting a new one", false},
	core.TellOutside:   {"outside", Warn, "The group's quarantine is shorter than this instance's TTL; this instance acquires nothing", false},
	core.TellSilent:    {"redisSilent", Warn, "Redis does not answer", false},
	core.TellHeard:     {"redisHeard", Info, "Redis answers again", false},
	core.TellRefusing:  {"redisRefuses", Warn, "Redis answers and refuses to write", false},
	core.TellAccepting: {"redisAccepts", Info, "Redis writes again", false},
	core.TellWithdrawn: {"withdrawn", Warn, "Left the registry: cannot acquire leases that others release", false},
	core.TellSuspect:   {"suspect", Info, "An instance let a lease expire while its heartbeat lived", false},
	core.TellDrained:   {"drained", Info, "All leases are released", false},
}

func formOf(k core.TellKind) form {
	if int(k) < len(forms) {
		return forms[k]
	}
	return form{}
}

// Event returns the value of the field "event" for a kind of tell; "" if that has no entry.
func Event(k core.TellKind) string { return formOf(k).event }

// Head returns level and message of the entry for t, and false if there is none. A shell may choose another level for successful renewals.
func Head(t *core.Tell) (Level, string, bool) {
	f := formOf(t.Kind)
	switch {
	case t.Kind == core.TellEpoch && t.Cause == core.CauseAttached:
		return Warn, "A replica attached itself; Redis grants nothing before its quarantine ends", true
	case t.Kind == core.TellEpoch && t.Cause == core.CauseOperator && t.Wait > 0:
		return Warn, "An operator changed the group's quarantine or replicas; Redis grants nothing before its quarantine ends", true
	case t.Kind == core.TellEpoch && t.Wait > 0:
		return Warn, "Redis was restarted or is new, and may have lost data; it grants nothing before its quarantine ends", true
	case forgot(t):
		return Info, "Redis may have lost the lease; writing it again", true
	case t.Again:
		return Info, f.message + " again", true
	case t.Kind == core.TellSilent && reply(t.Text):
		return f.level, "Redis refuses requests", true
	case t.Kind == core.TellHeard && reply(t.Text):
		return f.level, "Redis executes requests again", true
	case ofRedisClock(t):
		return f.level, "Redis' clock jumped forward; nothing is acquired for one TTL", true
	}
	return f.level, f.message, f.event != ""
}

// reply reports whether text is an error reply of Redis, which begins with a code in capitals, and not an error of the connection.
func reply(text string) bool {
	code, rest, _ := strings.Cut(text, " ")
	return rest != "" && code != "" && strings.Trim(code, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

// forgot reports whether t makes a lease uncertain only because Redis has another epoch. No renewal has failed then, and the entry of the
// epoch has the details.
func forgot(t *core.Tell) bool { return t.Kind == core.TellUncertain && t.Cause == core.CauseForgot }

// ofRedisClock reports whether t is about a jump of Redis' clock, not of the instance's own.
func ofRedisClock(t *core.Tell) bool { return t.Kind == core.TellClock && t.Text == "redis" }

// FieldKind is the type of a field's value.
type FieldKind uint8

// The kinds of values.
const (
	Text   FieldKind = iota
	Number           // a whole number; a duration in ms
)

// Field is one field of an entry, beside its time, level and message.
type Field struct {
	Key    string
	Kind   FieldKind
	Text   string
	Number int64
}

// Fields appends the fields of instance's entry for t to dst, without empty ones. The shell sets t.UntilWall to the end of the window on
// the clock that stamps its entries, also for the end of a term.
func Fields(dst []Field, instance string, t *core.Tell) []Field {
	f := formOf(t.Kind)
	dst = append(dst, Field{Key: "event", Text: f.event}, Field{Key: "instance", Text: instance})
	if t.ID != "" {
		dst = append(dst, Field{Key: "endpoint", Text: t.ID})
	}
	if t.Fence != 0 {
		dst = append(dst, Field{Key: "fence", Kind: Number, Number: t.Fence})
	}
	for _, said := range [...]Field{{Key: "reason", Text: Cause(t)}, storeSaid(t), {Key: "owner", Text: t.Owner}} {
		if said.Text != "" {
			dst = append(dst, said)
		}
	}
	switch {
	case t.Kind == core.TellAcquired:
		dst = append(dst, Field{Key: "ttl", Kind: Number, Number: t.TTL / core.Millisecond})
		if t.RedisNow != 0 {
			dst = append(dst, Field{Key: "redis", Text: stamp(t.RedisNow * 1000)})
		}
	case !f.lease && t.Wait != 0:
		dst = append(dst, Field{Key: "wait", Kind: Number, Number: t.Wait / core.Millisecond})
	}
	if t.UntilWall != 0 && t.Kind != core.TellRenewed { // renewals are most of a log
		dst = append(dst, Field{Key: "until", Text: stamp(t.UntilWall)})
	}
	return dst
}

// stamp formats a time, in ns since 1970.
func stamp(wall int64) string { return time.Unix(0, wall).UTC().Format(time.RFC3339Nano) }

// Cause returns the cause of t as one of a few fixed texts, independent of the store's error.
func Cause(t *core.Tell) string {
	switch {
	case ofRedisClock(t):
		return "redis' clock jumped"
	case t.Cause == core.CauseNoAnswer && reply(t.Text):
		return "refused"
	}
	return t.Cause.String()
}

// storeSaid returns the field with the store's error or epoch; empty if t has none. It is also empty for the end of a silence or refusal,
// whose error was logged at the beginning.
func storeSaid(t *core.Tell) Field {
	switch {
	case t.Kind == core.TellEpoch || t.Kind == core.TellRejected:
		return Field{Key: "epoch", Text: t.Text}
	case ofRedisClock(t) || forgot(t) || t.Kind == core.TellHeard || t.Kind == core.TellAccepting:
		return Field{}
	}
	return Field{Key: "error", Text: t.Text}
}

// Reason returns the cause of t together with the store's error.
func Reason(t *core.Tell) string {
	cause := Cause(t)
	switch {
	case t.Text == "" || ofRedisClock(t):
		return cause
	case cause == "":
		return t.Text
	}
	return cause + ": " + t.Text
}
