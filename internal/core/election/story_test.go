package election

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/leasestorm/leasestorm/internal/core"
)

// TestStories runs the stories of testdata: what one member is told, and what it does and publishes about it. Each file is
// meant to be read. `go test ./internal/core/election -rewrite` writes the outcomes anew; read the difference before you
// keep it, for the outcome is the assertion. TTL 30 s, cycles of 15 s, heartbeats every 10 s.
func TestStories(t *testing.T) { // E6, E7
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := &story{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s.out.Reset()
			s.run(t, d)
			if s.out.Len() == 0 {
				return "nothing\n"
			}
			return s.out.String()
		})
	})
}

type story struct {
	m   *Machine
	now core.Now
	out strings.Builder
}

var tells = map[string]core.TellKind{
	"acquired": core.TellAcquired, "renewed": core.TellRenewed, "uncertain": core.TellUncertain, "lost": core.TellLost,
	"released": core.TellReleased, "refused": core.TellRefused, "yield": core.TellYield,
}

var inputs = map[string]Kind{"attempt": Attempt, "stop": Stop, "busy": Busy, "done": Done, "looked": Looked}

func (s *story) run(t *testing.T, d *datadriven.TestData) {
	arg := func(key string) (v string) {
		if d.HasArg(key) {
			d.ScanArgs(t, key, &v)
		}
		return v
	}
	num := func(key string) int64 { v, _ := strconv.ParseInt(arg(key), 10, 64); return v }
	dur := func(text string) int64 {
		v, err := time.ParseDuration(text)
		if err != nil {
			t.Fatalf("%s: %v", d.Pos, err)
		}
		return int64(v)
	}
	in := Input{Fence: num("fence"), Owner: arg("owner"), Reason: strings.ReplaceAll(arg("reason"), "-", " ")}
	in.Look = Look{Leader: arg("leader"), Fence: num("fence"), Of: arg("of"), Heartbeat: arg("heartbeat"),
		Beats: d.HasArg("heartbeat"), Failed: d.HasArg("failed")}
	switch d.Cmd {
	case "start":
		delay := int64(0)
		if d.HasArg("delay") {
			delay = dur(arg("delay"))
		}
		s.m = New(Config{Instance: "a", TTL: 30 * core.Second, Interval: 15 * core.Second, Heartbeat: 10 * core.Second,
			StartDelay: delay})
		s.now = core.Now{Mono: 1, Wall: 1_700_000_000_000 * core.Millisecond}
		in.Kind = Start
	case "leader":
		if l := s.m.Leader(); l.At(s.now.Mono) {
			fmt.Fprintf(&s.out, "%s fence=%d\n", l.Instance, l.Fence)
		} else {
			s.out.WriteString("nobody\n")
		}
		return
	case "wait":
		end := s.now.Mono + core.Time(dur(d.CmdArgs[0].Key))
		for n := s.m.Next(); n != 0 && n <= end; n = s.m.Next() {
			s.sleep(n - s.now.Mono)
			s.step(Input{Kind: Tick})
		}
		s.sleep(end - s.now.Mono)
		return
	default:
		in.Kind = inputs[d.Cmd]
		if in.Tell = tells[d.Cmd]; in.Tell != 0 {
			in.Kind = Tell
		}
		if in.Kind == 0 {
			t.Fatalf("%s: unknown command %s", d.Pos, d.Cmd)
		}
	}
	s.step(in)
}

func (s *story) sleep(d core.Time) {
	s.now.Mono += d
	s.now.Wall += int64(d)
}

var eventNames = [...]string{"", "StateChanged", "LeadershipAcquired", "LeadershipLost", "ElectionFailed", "LeaderChanged",
	"HeartbeatStale", "HeartbeatInvalid", "DuplicateInstance"}

func (s *story) step(in Input) {
	in.Now = s.now
	eff := s.m.Step(in)
	say := func(format string, args ...any) {
		fmt.Fprintf(&s.out, "%5.4gs  %s\n", time.Duration(s.now.Mono-1).Seconds(), fmt.Sprintf(format, args...))
	}
	for _, e := range eff.Events {
		text := eventNames[e.Kind]
		if e.Kind == StateChanged {
			text += fmt.Sprintf(" %s → %s", e.From, e.To)
		}
		if e.Fence != 0 {
			text += fmt.Sprintf(" fence=%d", e.Fence)
		}
		if e.Leader != "" {
			text += " leader=" + e.Leader
		}
		if e.Reason != "" {
			text += " (" + e.Reason + ")"
		}
		say("%s", text)
	}
	for _, e := range []struct {
		on   bool
		name string
	}{
		{eff.Want, "want the lease"}, {eff.Drop, "drop the lease"}, {eff.Doubt, "ask whether Redis lost its data"}, {eff.Beat, "set the heartbeat"},
		{eff.Unbeat, "delete the heartbeat"}, {eff.Look, "look, heartbeat of " + strconv.Quote(eff.LookOf)},
		{eff.Sweep, "sweep the heartbeats of the dead"},
	} {
		if e.on {
			say("→ %s", e.name)
		}
	}
}
