// Package guest defines a program that runs unchanged in virtual time, such as an instance of WebAssembly (sim/guest/wasm). The engine
// runs one program at a time. It owns the clocks, the network and the randomness.
package guest

// Host is what a program reaches outside itself. A program calls it only during Run.
type Host interface {
	// Clock returns the monotonic and the wall clock, in ns. Each call takes a little virtual time, so that a loop that waits for time ends.
	Clock() (mono, wall int64)
	// Random fills p.
	Random(p []byte)
	// Dial begins a connection to an address such as 10.0.0.1:6379 or redis:6379. Program.Connected reports the result. conn is not in use.
	Dial(conn int32, addr string)
	// Write sends p, which the host must not keep.
	Write(conn int32, p []byte)
	// Close ends a connection. conn may be used again.
	Close(conn int32)
	// Print receives bytes of standard output (1) or standard error (2), not necessarily whole lines.
	Print(fd int32, p []byte)
}

// State is the state of a program after Run.
type State struct {
	Next   int64 // time on the monotonic clock at which it wants to run again; 0: only after an input
	Exited bool
	Code   uint32 // exit code
	Fell   string // why it was stopped: it trapped, or ran too long without waiting; "": it was not
}

// Program is a running program. Its inputs take effect in the next Run. It is not safe for concurrent use.
type Program interface {
	// Run runs the program until it waits for an input or for time, or exits.
	Run() State
	// Connected ends a Dial. An empty text means success, another is the error, such as "connection refused".
	Connected(conn int32, failure string)
	// Deliver appends p to what the program can read from a connection. It keeps p.
	Deliver(conn int32, p []byte)
	// HangUp ends a connection from outside: in order, or by a reset, which drops unread bytes.
	HangUp(conn int32, reset bool)
	// Signal sends SIGTERM.
	Signal()
	// Kill ends the program at once. It must be called once, also after an exit.
	Kill()
}

// Starter starts a program with environment variables of the form NAME=value.
type Starter func(env []string, h Host) Program
