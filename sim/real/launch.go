package real

import (
	"syscall"
	"time"
)

// program is a started process or container. Its methods are safe for concurrent use.
type program interface {
	begun() time.Time // just before it could do anything
	id() int          // of its process on this machine; 0: not known
	ended() <-chan struct{}
	end() (when time.Time, code int) // only valid once ended is closed
	kill()                           // as a crash does, and waits for the end
	stop(begin, sent func())         // asks it to end, between begin and sent, and thaws it; does not wait
	freeze() error
	thaw() error
	ask(syscall.Signal) error // errGone after the end
}

func nothing() {}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// terminate asks a program to end, between begin and sent, and kills it after the grace, or once hurry is closed. It reports whether it
// did.
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
