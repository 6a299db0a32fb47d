// Package foreign defines a node without this library as a pure state machine. Its inputs are time and replies; its outputs are plain
// Redis commands and events. The same machine runs in virtual time and as a process (sim/foreign/process), so both engines test one
// algorithm.
package foreign

import "time"

// Command is a Redis command that is sent once, such as "SET", "key", "value", "NX", "PX", "30000".
type Command struct {
	Seq  uint64 // chosen by the machine and repeated by its Reply
	Args []string
}

// Reply is the result of a Command.
type Reply struct {
	Seq   uint64
	Err   string // not "": Redis refused the command, or its effect is unknown
	Value any    // nil, int64, string or []any of these
}

// Text returns the reply as text, or "" if it is no text.
func (r *Reply) Text() string {
	s, _ := r.Value.(string)
	return s
}

// Texts returns the elements of an array reply, with "" for each element that is no text.
func (r *Reply) Texts() []string {
	all, _ := r.Value.([]any)
	out := make([]string, len(all))
	for i := range all {
		out[i], _ = all[i].(string)
	}
	return out
}

// Input is one input of a Machine.
type Input struct {
	Now   time.Duration // the machine's monotonic clock; only differences are meaningful
	Wall  time.Time     // the machine's wall clock
	Reply *Reply        // nil at the time of Next or on Stop
	Stop  bool          // stops the machine, which sets Exit when it has stopped
}

// Word is an event that a node reports (docs/node-protocol.md).
type Word struct {
	Event  string // "acquired", "lost", "released", "stateChanged", …
	Reason string
	From   string // stateChanged
	To     string
	Leader string // leading
}

// Effects is the output of one Step.
type Effects struct {
	Words    []Word
	Commands []Command
	Exit     bool // the machine has stopped
}

// Machine is a node with one lease, to which its events refer. Between "acquired" and "lost" or "released" its engine does the leader's
// work: periodic unfenced writes to the resource.
type Machine interface {
	// Step processes one input. Now never decreases.
	Step(Input) Effects
	// Next returns when to call Step again, on the machine's clock; false: not before another input.
	Next() (time.Duration, bool)
}
