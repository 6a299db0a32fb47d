// Package protocol reads what a node prints and names what a node is given (docs/node-protocol.md), for all engines.
package protocol

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"

	"github.com/leasestorm/leasestorm/sim/history"
)

// lineMax bounds a line of a node, in bytes (docs/node-protocol.md).
const lineMax = 64 << 10

// ExitTurnedAway is the exit code of a node that cannot use the Redis it found.
const ExitTurnedAway = 3

// ErrFence reports an X-Fence of a poll that is no fence.
var ErrFence = errors.New("X-Fence is no positive number")

// ParseFence reads the X-Fence of a poll, which may be missing.
func ParseFence(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		return 0, ErrFence
	}
	return n, nil
}

// Dropped is the event of a node that had to drop lines because its standard output was not read: it ends the run.
const Dropped = "dropped"

const shownMax = 200

// Version is the node protocol's version. It increases when an event or a variable changes its meaning, not when one is added.
const Version = 1

// Message is one line of a node.
type Message struct {
	Name     string `json:"event"`
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

// Read calls say or malformed for each line until the node closes its output. Its memory is bounded by lineMax.
func Read(r io.Reader, say func(Message), malformed func(shown string)) {
	in := bufio.NewReaderSize(r, lineMax)
	for {
		line, err := in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			malformed(show(line) + " (longer than 64 KiB)")
			err = skipLine(in)
		} else if text := strings.TrimSpace(string(line)); text != "" {
			if m, why := Parse(text); why != "" {
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

// Parse parses a line. why is not empty if the line violates the protocol, for example by a value of the wrong type.
func Parse(text string) (m Message, why string) {
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
	case m.Name == "":
		return m, "no event"
	case m.Level != nil && m.Msg != nil: // its event may be named like one of the protocol
		return m, "a log entry: write the log to standard error; a launcher with a terminal of its own, such as script, merges the two"
	}
	return m, ""
}

func show(line []byte) string {
	return strings.ToValidUTF8(string(line[:min(len(line), shownMax)]), "\uFFFD")
}

var kinds = map[string]history.Kind{}

func init() {
	for _, k := range history.Words() {
		kinds[k.String()] = k
	}
}

// Event returns the event of a message of a node, without its times.
func (m *Message) Event(node string) history.Event {
	e := history.Event{Node: node, Instance: m.Instance, Session: m.Session, Fence: m.Fence, Reason: m.Reason}
	kind, known := kinds[m.Name]
	if !known {
		e.Reason = strings.TrimSpace(m.Name + " " + m.Reason)
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
	return e
}
