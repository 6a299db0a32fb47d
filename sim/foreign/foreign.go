// Package foreign is a node that is not this library, as a pure machine: what it is told comes in, the plain Redis commands
// that it sends and what it says go out. So one algorithm runs in virtual time and as a process (sim/foreign/process),
// and what the storm finds in the one is what it finds in the other.
package foreign

import "time"

// Command is one Redis command, sent once: "SET", "key", "value", "NX", "EX", "30".
type Command struct {
	Seq  uint64 // the machine's own number, in its Reply
	Args []string
}

// Reply is what became of a Command.
type Reply struct {
	Seq   uint64
	Err   string // not "": Redis refused it, or what it did is not known
	Value any    // nil, int64, string or []any of these
}

// Text returns the reply as text, "" if it is none.
func (r *Reply) Text() string {
	s, _ := r.Value.(string)
	return s
}

// Texts returns the elements of a reply with several, "" for each that is no text.
func (r *Reply) Texts() []string {
	all, _ := r.Value.([]any)
	out := make([]string, len(all))
	for i := range all {
		out[i], _ = all[i].(string)
	}
	return out
}

// Input is one thing a Machine is told.
type Input struct {
	Now   time.Duration // its own monotonic clock; only differences mean anything
	Wall  time.Time     // its own wall clock
	Reply *Reply        // nil: time has reached Next
	Stop  bool          // asked to stop: Exit follows when that is done
}

// Word is what a node says (docs/node-protocol.md).
type Word struct {
	Event  string // "acquired", "lost", "released", "stateChanged", …
	Reason string
	From   string // stateChanged
	To     string
	Leader string // leading
}

// Effects is what follows from one Input.
type Effects struct {
	Words    []Word
	Commands []Command
	Exit     bool // it has stopped
}

// Machine is a node. Its words are about one lease. Between "acquired" and "lost" or "released" whoever runs it does the
// leader's work on its behalf: a write to the resource every so often, without a fence.
type Machine interface {
	// Step takes one input. Time never runs backwards.
	Step(Input) Effects
	// Next is when it wants to be stepped again, on its own clock; false: only when something happens.
	Next() (time.Duration, bool)
}
