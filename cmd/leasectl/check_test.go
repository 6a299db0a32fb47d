package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/internal/redistest"
)

// If a quarantine began while Redis' clock was ahead, it lasts until the clock catches up. check says so, and the command that it names
// ends the quarantine.
func TestQuarantineOfAClockAhead(t *testing.T) {
	s := redistest.Start(t)
	run := func(args ...string) string {
		var out strings.Builder
		execute(t.Context(), append(args, "--redis", s.URL()), &out, &out)
		return out.String()
	}
	run("bootstrap", "--quarantine", "2s")
	client := s.Client()
	id, _, _ := strings.Cut(client.Get(t.Context(), "lease:epoch").Val(), " ")
	ahead := id + " 9000000000000000" // in the year 2255
	s.Do("SET", "lease:epoch", ahead)
	s.Do("HSET", "lease:epoch:group", "epoch", ahead)
	const mend = "leasectl quarantine 2s"
	if out := run("check"); !strings.Contains(out, "clock was ahead") || !strings.Contains(out, mend) {
		t.Errorf("check does not say how to end it:\n%s", out)
	}
	run(strings.Fields(mend)[1:]...)
	if out := run("check"); strings.Contains(out, "clock was ahead") {
		t.Errorf("%s did not end it:\n%s", mend, out)
	}
}

// check finds a clock that differs by more than the measurement's error and a second. It finds a failed snapshot before Redis refuses
// writes for it.
func TestCheckFindsClocksAndSnapshots(t *testing.T) {
	g := &group{client: redistest.Start(t, redistest.AppendOnly()).Client()}
	for _, c := range []struct {
		ahead, within time.Duration
		saved, found  string
	}{
		{time.Minute, time.Millisecond, "ok", "clock"}, {-2 * time.Second, time.Millisecond, "ok", "clock"},
		{900 * time.Millisecond, time.Millisecond, "ok", ""}, {3 * time.Second, 2500 * time.Millisecond, "ok", ""},
		{0, time.Millisecond, "err", "persistence"},
	} {
		now := &redisstore.Group{Ahead: c.ahead, Within: c.within, Info: redisstore.Info{Fields: map[string]string{
			"aof_enabled": "1", "rdb_last_bgsave_status": c.saved, "aof_last_write_status": "ok"}}}
		if found := names(g.server(t.Context(), now, &flags{timeout: time.Second})); found != c.found {
			t.Errorf("%+v: found %q", c, found)
		}
	}
}

// check names a command that Redis does not have, whichever it is and whatever else it cannot read.
func TestCheckNamesMissingCommands(t *testing.T) {
	for command, found := range map[string]string{"EVAL": "no command EVAL:", "SUBSCRIBE": "no command SUBSCRIBE:",
		"SCAN": "no command SCAN:", "TIME": "no command time:", "HMGET": "no command hmget:", "INFO": "INFO is denied, or renamed"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, redistest.Args("--rename-command", command, ""))
			var out strings.Builder
			code := execute(t.Context(), []string{"check", "--redis", s.URL()}, &out, &out)
			mended := command == "INFO" || strings.Contains(out.String(), "mend it: remove its rename-command")
			if code != 1 || !mended || !strings.Contains(out.String(), found) {
				t.Errorf("exit code %d: %s", code, out.String())
			}
		})
	}
}

// Sessions are judged by the leases of instances with a heartbeat. If these do not read the keys "session:*", check finds nothing.
func TestCheckFindsSessions(t *testing.T) {
	const a, b = "0190a8c2-8f5e-4c2a-9d7e-3b1f6a2c4d5e", "0190a8c2-8f5e-4c2a-9d7e-3b1f6a2c4d5f"
	for _, c := range []struct{ alive, leases, sessions, found string }{ // leases of node-1; "!" is a malformed session
		{"node-1", a, a + " " + b, ""},
		{"node-1", a + " " + b, "", "no-sessions"},
		{"node-1", "", "", "no-sessions"},
		{"node-1", "nightly", "", ""}, // a Keeper's
		{"", a, "", ""},
		{"node-1", a + " " + b, a, "sessions-gone"},
		{"node-1", a, b, "sessions-gone"},
		{"node-1", "nightly", a, ""},
		{"node-2", a, b, ""}, // the owner is dead
		{"node-1", a, a + " !" + b, "sessions-malformed"},
		{"node-1", "", "!" + a, "sessions-malformed"},
		{"", "", "!" + a, ""},
		{"node-1", a, "!" + a + " !" + b, ""}, // another form
		{"node-1", a, "!web-session", ""},
		{"node-1", a, b + " !x", "sessions-gone sessions-malformed"},
	} {
		st, faults := &status{alive: map[string]bool{}}, map[string]error{}
		for _, id := range strings.Fields(c.alive) {
			st.alive[id] = true
		}
		for _, id := range strings.Fields(c.leases) {
			st.Leases = append(st.Leases, held{Lease: id, Owner: "node-1"})
		}
		for _, id := range strings.Fields(c.sessions) {
			if id, malformed := strings.CutPrefix(id, "!"); malformed {
				faults[id] = errors.New("no JSON")
			} else {
				faults[id] = nil
			}
		}
		if found := names(ofSessions(st, faults)); found != c.found {
			t.Errorf("%+v: found %q", c, found)
		}
	}
}

func names(all []finding) string {
	var names []string
	for _, f := range all {
		names = append(names, f.Name)
	}
	return strings.Join(names, " ")
}
