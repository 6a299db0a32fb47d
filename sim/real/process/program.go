package process

import (
	"syscall"
	"time"
)

// Program is a started process or container. Its methods are safe for concurrent use.
type Program interface {
	Begun() time.Time // just before it could act
	ID() int          // process ID on this machine; 0: unknown
	Ended() <-chan struct{}
	End() (when time.Time, code int) // only valid once ended is closed
	Kill()                           // ends it like a crash and waits for its end
	Stop(begin, sent func())         // sends SIGTERM between begin and sent, and thaws it; does not wait
	Freeze() error
	Thaw() error
	Signal(syscall.Signal) error // errGone after the end of a process
}

// InterruptGrace is how long a program may take for a clean stop in an interrupted run, which must end within 3 s.
const InterruptGrace = time.Second

// Terminate stops a program (see Program.Stop) and kills it after grace, or within InterruptGrace once hurry is closed. It reports
// whether it killed the program.
func Terminate(p Program, begin, sent func(), grace time.Duration, hurry <-chan struct{}) (killed bool) {
	p.Stop(begin, sent)
	t := time.NewTimer(grace)
	defer t.Stop()
	for {
		select {
		case <-p.Ended():
			return false
		case <-hurry:
			hurry = nil
			t.Reset(min(grace, InterruptGrace))
		case <-t.C:
			p.Kill()
			return true
		}
	}
}
