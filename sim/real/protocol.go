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
)

// lineMax bounds a line of a node, in bytes (docs/node-protocol.md).
const lineMax = 64 << 10

// malformedShown is how much of a malformed line is kept.
const malformedShown = 200

// protocolVersion is the version of the node protocol that this program speaks. It is raised when a word or a variable comes to
// mean something else; one that is added does not raise it.
const protocolVersion = 1

// word is one line of a node.
type word struct {
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

	Protocol int64 `json:"protocol"` // ready: the version that it speaks, 0: it does not say
	Asks     bool  `json:"asks"`     // ready: it asks Redis before each use, and trusts no window
}

// readWords calls word for each line of a node and malformed for what is none, until the node closes its output. A line
// without end costs no memory.
func readWords(r io.Reader, say func(word), malformed func(shown string)) {
	in := bufio.NewReaderSize(r, lineMax)
	for {
		line, err := in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			malformed(show(line) + " (longer than 64 KiB)")
			for errors.Is(err, bufio.ErrBufferFull) {
				_, err = in.ReadSlice('\n')
			}
			if err != nil {
				return
			}
			continue
		}
		if text := strings.TrimSpace(string(line)); text != "" {
			if w, why := parseWord(text); why != "" {
				malformed(show([]byte(text)) + " (" + why + ")")
			} else {
				say(w)
			}
		}
		if err != nil {
			return
		}
	}
}

// parseWord reads a line, or says why it is none of the protocol: a value of the wrong type looks right to who wrote it.
func parseWord(text string) (w word, why string) {
	err := json.Unmarshal([]byte(text), &w)
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrong) && wrong.Field == "":
		return w, "no JSON object"
	case errors.As(err, &wrong) && wrong.Type.Kind() == reflect.Int64:
		return w, fmt.Sprintf("%s must be a whole number, in digits only and not in quotes; got a %s", wrong.Field, wrong.Value)
	case errors.As(err, &wrong):
		return w, fmt.Sprintf("%s must be a %s; got a %s", wrong.Field, wrong.Type, wrong.Value)
	case err != nil:
		return w, "no JSON: " + err.Error()
	case w.Event == "":
		return w, "no event"
	case len(w.Instance) > nameMax:
		return w, fmt.Sprintf("instance is longer than %d bytes", nameMax)
	case len(w.Session) > nameMax:
		return w, fmt.Sprintf("session is longer than %d bytes", nameMax)
	}
	return w, ""
}

func show(line []byte) string {
	return strings.ToValidUTF8(string(line[:min(len(line), malformedShown)]), "\uFFFD")
}

// nodeWords are the events that a node may say. All other kinds are other witnesses'.
var nodeWords = map[string]history.Kind{}

func init() {
	for _, k := range history.Words() {
		nodeWords[k.String()] = k
	}
}

// stampSlack is how far a stamp may lie in the future, for clocks that are read one after the other.
const stampSlack = int64(50e6)

// event turns a node's word into an event of its slot. Without a stamp, or with one that cannot be CLOCK_MONOTONIC of
// this host since the run's start, it is stamped now and ok is false in the latter case.
func (c *clock) event(slot string, w word) (e history.Event, ok bool) {
	now := c.now()
	e = history.Event{
		T: now, Node: slot, Instance: w.Instance, Session: w.Session, Fence: w.Fence, Reason: w.Reason,
	}
	kind, known := nodeWords[w.Event]
	if !known {
		e.Reason = strings.TrimSpace(w.Event + " " + w.Reason)
	}
	switch e.Kind = kind; kind {
	case history.Ready:
		e.N = w.Protocol
		if w.Asks {
			e.Reason = history.Asks
		}
	case history.StateChanged:
		e.Reason = w.From + " " + w.To
	case history.Leading:
		e.Reason = w.Leader
	}
	ok = true
	if w.T != 0 {
		if t := c.fromMono(w.T); t >= 0 && t <= now+stampSlack {
			e.T = min(t, now)
		} else {
			ok = false
		}
	}
	if w.Until > 0 && ok {
		e.Until = c.fromMono(w.Until)
	}
	return e, ok
}
