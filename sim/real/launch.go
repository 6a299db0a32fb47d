package real

import (
	"syscall"
	"time"
)

// program is a started process or container. Its methods are safe for concurrent use.
type program interface {
	begun() time.Time // just before it could act
	id() int          // process ID on this machine; 0: unknown
	ended() <-chan struct{}
	end() (when time.Time, code int) // only valid once ended is closed
	kill()                           // ends it like a crash and waits for its end
	stop(begin, sent func())         // sends SIGTERM between begin and sent, and thaws it; does not wait
	freeze() error
	thaw() error
	ask(syscall.Signal) error // errGone after the end of a process
}

func nothing() {}

// terminate stops a program (see program.stop) and kills it after grace, or within interruptGrace once hurry is closed. It reports
// whether it killed the program.
func terminate(p program, begin, sent func(), grace time.Duration, hurry <-chan struct{}) (killed bool) {
	p.stop(begin, sent)
	t := time.NewTimer(grace)
	defer t.Stop()
	for {
		select {
		case <-p.ended():
			return false
		case <-hurry:
			hurry = nil
			t.Reset(min(grace, interruptGrace))
		case <-t.C:
			p.kill()
			return true
		}
	}
}
