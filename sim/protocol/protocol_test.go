package protocol

import (
	"fmt"
	"strings"
	"testing"
	"testing/iotest"
)

func TestRead(t *testing.T) {
	long := strings.Repeat("x", 3*lineMax)
	in := `{"event":"ready","instance":"i"}` + "\n\n  \n" + // empty lines are no lines
		`{"event":"acquired","session":"s","fence":3,"t":5,"until":9,"more":[1]}` + "\r\n" +
		"not json\n" + `{"instance":"i"}` + "\n" + `{"event":7}` + "\n" + "[]\n\xff\xfe\n" + long + "\n" +
		`{"event":"danced"}` // without a line end
	var events, bad []string
	Read(iotest.HalfReader(strings.NewReader(in)), func(m Message) {
		events = append(events, fmt.Sprintf("%s %d", m.Name, m.Fence))
	}, func(shown string) { bad = append(bad, shown) })
	if got := strings.Join(events, ", "); got != "ready 0, acquired 3, danced 0" {
		t.Errorf("events %q", got)
	}
	if len(bad) != 6 {
		t.Errorf("%d malformed lines, want 6: %q", len(bad), bad)
	}
	for _, b := range bad {
		if len(b) > shownMax+100 {
			t.Errorf("%d bytes of a malformed line are kept", len(b))
		}
	}
}

// The error of an almost valid line names its mistake, such as a number in the format of another language.
func TestWhyALineIsNone(t *testing.T) {
	for line, want := range map[string]string{
		`{"event":"ready","t":2.5}`:           "t must be a whole number, in digits only and not in quotes; got a number 2.5",
		`{"event":"ready","t":1e+12}`:         "t must be a whole number, in digits only and not in quotes; got a number 1e+12",
		`{"event":"ready","t":"5"}`:           "t must be a whole number, in digits only and not in quotes; got a string",
		`{"event":"acquired","fence":"7"}`:    "fence must be a whole number, in digits only and not in quotes; got a string",
		`{"event":"acquired","session":7}`:    "session must be a string; got a number",
		`{"event":"ready","asks":"true"}`:     "asks must be a bool; got a string",
		`[]`:                                  "no JSON object",
		`{"event":"ready"`:                    "no JSON: unexpected end of JSON input",
		`{"instance":"i"}`:                    "no event",
		`{"event":"ready","t":5,"new":[1.5]}`: "",
		`{"event":"ready","level":"high"}`:    "",
		`{"event":"acquired","level":"info","ts":"2026-11-29","msg":"Lease acquired"}`: "a log entry: write the log to standard error; a " +
			"launcher with a terminal of its own, such as script, merges the two",
	} {
		if _, why := Parse(line); why != want {
			t.Errorf("%s: %q, want %q", line, why, want)
		}
	}
}
