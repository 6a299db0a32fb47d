package sim

import (
	"errors"
	"regexp"
	"slices"
	"time"
)

// ErrLater means that what was asked for is designed but not part of this version.
var ErrLater = errors.New("not in this version yet")

var nameForm = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,63}$`)

// variable is a word before a command that sets an environment variable.
var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)

// NodeCommand divides a NodeCmd into the environment variables that stand before its program, and the program with its
// arguments.
func NodeCommand(words []string) (env, argv []string) {
	n := slices.IndexFunc(words, func(w string) bool { return !variable.MatchString(w) })
	if n < 0 {
		n = len(words)
	}
	return slices.Clone(words[:n]), words[n:]
}

func programOf(words []string) []string {
	_, argv := NodeCommand(words)
	return argv
}

// checkEngine refuses an engine that exists nowhere, and what the chosen one does not have.
func (c Config) checkEngine() error {
	switch {
	case c.Engine != EngineReal && c.Engine != EngineVirtual:
		return wrong("engine", "%q: unknown engine: known are %s, %s (flag --engine)", c.Engine, EngineReal, EngineVirtual)
	case len(c.NodeCmd) > 0 && len(programOf(c.NodeCmd)) == 0:
		return wrong("nodeCmd", "%q names no program to start (flag --node-cmd)", c.NodeCmd)
	case c.onVirtual() && len(c.NodeCmd) > 0:
		return wrong("nodeCmd", "the virtual engine runs this library's own rules and starts no program (flag --node-cmd)")
	case !c.onVirtual() && c.Virtual != (Virtual{}):
		return wrong("virtual", "these are the virtual engine's surroundings: add engine: virtual (flag --engine)")
	}
	return nil
}

// checkCounts refuses numbers and names that are out of bounds on their own.
func (c Config) checkCounts() error {
	nodesMax := NodesMax
	if c.onVirtual() {
		nodesMax = NodesMaxVirtual
	}
	switch {
	case !nameForm.MatchString(c.Name):
		return wrong("name", "%q: use up to 64 of a-z, 0-9 and -, not - first", c.Name)
	case c.APILeases != "" && !slices.Contains([]string{APILeasesOff, APILeasesOn, APILeasesMixed}, c.APILeases):
		return wrong("apiLeases", "%q: known are %s, %s, %s", c.APILeases, APILeasesOff, APILeasesOn, APILeasesMixed)
	case c.APILeases != "" && c.System != SystemIntents:
		return wrong("apiLeases", "only APIs of intents take leases: add system: %s (flag --system)", SystemIntents)
	case c.Nodes < 1 || c.Nodes > nodesMax:
		return wrong("nodes", "%d is out of bounds: 1 to %d (flag --nodes)", c.Nodes, nodesMax)
	case c.Sessions < 1 || c.Sessions > systems[c.System].sessionsMax:
		return wrong("sessions", "%d is out of bounds: %s (flag --sessions)", c.Sessions, systems[c.System].sessionsOf())
	case !(c.Speed >= SpeedMin && c.Speed <= SpeedMax): // so written, NaN is refused
		return wrong("speed", "%v is out of bounds: %v to %v (flag --speed)", c.Speed, SpeedMin, SpeedMax)
	}
	return c.checkCriteria()
}

// checkTimings refuses durations that are out of bounds or contradict each other.
func (c Config) checkTimings() error {
	if c.TTL < TTLMin || c.TTL > TTLMax {
		return wrong("timings.ttl", "%v is out of bounds: %v to %v (flag --ttl; --speed divides the default)",
			c.TTL, TTLMin, TTLMax)
	}
	for _, d := range []struct {
		key   string
		value time.Duration
	}{
		{"timings.renew", c.Renew}, {"timings.heartbeat", c.Heartbeat}, {"timings.discovery", c.Discovery},
		{"timings.poll", c.Poll}, {"timings.pollTimeout", c.PollTimeout}, {"timings.serve", c.Serve},
	} {
		if d.value < time.Millisecond {
			return wrong(d.key, "%v is too short: at least 1ms after the division by the speed (%v)", d.value, c.Speed)
		}
		if d.value > DurationMax {
			return wrong(d.key, "%v is too long: at most %v, as a run", d.value, DurationMax)
		}
	}
	switch {
	case c.Renew >= c.TTL:
		return wrong("timings.renew",
			"%v must be shorter than the TTL, which is %v: a third of it is usual (flags --renew, --ttl)", c.Renew, c.TTL)
	case c.Renew+c.RenewTimeout > c.TTL*99/100:
		return wrong("timings.renew",
			"%v leaves no time for an answer (a tenth of the TTL) before trust ends: the TTL is %v (flags --renew, --ttl)",
			c.Renew, c.TTL)
	case c.Heartbeat >= c.TTL:
		return wrong("timings.heartbeat", "%v must be shorter than the TTL, which is %v", c.Heartbeat, c.TTL)
	case c.PollTimeout > c.TTL*9/10 && !c.LongPolls:
		return wrong("timings.pollTimeout",
			"%v is longer than nine tenths of the TTL, which is %v: shorten it, or allow such polls with longPolls: true",
			c.PollTimeout, c.TTL)
	case c.Serve >= c.PollTimeout:
		return wrong("timings.serve", "%v must be shorter than the poll time-out, which is %v", c.Serve, c.PollTimeout)
	}
	return nil
}
