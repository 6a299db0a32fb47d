package real

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/real/host"
)

// lineMax bounds a line of a node, in bytes (docs/node-protocol.md).
const lineMax = 64 << 10

// dropped is the event of a node that had to drop lines because its standard output was not read: it ends the run.
const dropped = "dropped"

const malformedShown = 200

// protocolVersion is the node protocol's version. It increases when an event or a variable changes its meaning, not when one is added.
const protocolVersion = 1

type message struct {
	Event    string `json:"event"`
	Session  string `json:"session"`
	Instance string `json:"instance"`
	Fence    int64  `json:"fence"`
	T        int64  `json:"t"`
	Until    int64  `json:"until"`
	Reason   string `json:"reason"`

	From   string `json:"from"`   // stateChanged
	To     string `json:"to"`     // stateChanged
	Leader string `json:"leader"` // leading

	Protocol int64 `json:"protocol"` // ready: version of the protocol; 0: not given
	Asks     bool  `json:"asks"`     // ready: the node checks Redis before each use, and trusts no window
	Lines    int64 `json:"lines"`    // dropped

	Level json.RawMessage `json:"level"` // of a log entry, with Msg
	Msg   json.RawMessage `json:"msg"`
}

// readEvents calls say or malformed for each line until the node closes its output. Its memory is bounded by lineMax.
func readEvents(r io.Reader, say func(message), malformed func(shown string)) {
	in := bufio.NewReaderSize(r, lineMax)
	for {
		line, err := in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			malformed(show(line) + " (longer than 64 KiB)")
			err = skipLine(in)
		} else if text := strings.TrimSpace(string(line)); text != "" {
			if m, why := parseEvent(text); why != "" {
				malformed(show([]byte(text)) + " (" + why + ")")
			} else {
				say(m)
			}
		}
		if err != nil {
			return
		}
	}
}

// skipLine reads the rest of a line.
func skipLine(in *bufio.Reader) error {
	_, err := in.ReadSlice('\n')
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = in.ReadSlice('\n')
	}
	return err
}

// parseEvent parses a line. why is not empty if the line violates the protocol, for example by a value of the wrong type.
func parseEvent(text string) (m message, why string) {
	err := json.Unmarshal([]byte(text), &m)
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrong) && wrong.Field == "":
		return m, "no JSON object"
	case errors.As(err, &wrong) && wrong.Type.Kind() == reflect.Int64:
		return m, fmt.Sprintf("%s must be a whole number, in digits only and not in quotes; got a %s", wrong.Field, wrong.Value)
	case errors.As(err, &wrong):
		return m, fmt.Sprintf("%s must be a %s; got a %s", wrong.Field, wrong.Type, wrong.Value)
	case err != nil:
		return m, "no JSON: " + err.Error()
	case m.Event == "":
		return m, "no event"
	case m.Level != nil && m.Msg != nil: // its event may be named like one of the protocol
		return m, "a log entry: write the log to standard error; a launcher with a terminal of its own, such as script, merges the two"
	}
	return m, ""
}

func show(line []byte) string {
	return strings.ToValidUTF8(string(line[:min(len(line), malformedShown)]), "\uFFFD")
}

var nodeEvents = map[string]history.Kind{}

func init() {
	for _, k := range history.Words() {
		nodeEvents[k.String()] = k
	}
}

// stampSlack is how far a stamp may lie in the future or before its process, in ns: clocks are coarse and read one after the other.
const stampSlack = int64(50e6)

// stamped converts a node's message into an event of its slot. It stamps the event with the current time if the message has no stamp. It
// also does so, and returns false, if the stamp is no CLOCK_MONOTONIC since the process began.
func stamped(c *host.Clock, slot string, began int64, m message) (e history.Event, ok bool) {
	now := c.Now()
	e = history.Event{
		T: now, Node: slot, Instance: m.Instance, Session: m.Session, Fence: m.Fence, Reason: m.Reason,
	}
	kind, known := nodeEvents[m.Event]
	if !known {
		e.Reason = strings.TrimSpace(m.Event + " " + m.Reason)
	}
	switch e.Kind = kind; kind {
	case history.Ready:
		e.N = m.Protocol
		if m.Asks {
			e.Reason = history.Asks
		}
	case history.StateChanged:
		e.Reason = m.From + " " + m.To
	case history.Leading:
		e.Reason = m.Leader
	}
	ok = true
	if m.T != 0 {
		if t := c.FromMono(m.T); t >= began-stampSlack && t <= now+stampSlack {
			e.T = min(max(t, began), now)
		} else {
			ok = false
		}
	}
	if m.Until > 0 && ok {
		e.Until = c.FromMono(m.Until)
	}
	return e, ok
}
