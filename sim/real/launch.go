package real

import (
	"syscall"
	"time"
)

// program is one that was started: a process, or a container. Its methods are safe for concurrent use.
type program interface {
	begun() time.Time // just before it could do anything
	id() int          // of its process on this machine; 0: not known
	ended() <-chan struct{}
	end() (when time.Time, code int) // only valid once ended is closed
	kill()                           // as a crash does, and waits for the end
	stop(begin func())               // asks it to end, and thaws it, just after begin; does not wait
	freeze() error
	thaw() error
	ask(syscall.Signal) error // errGone after the end
}

// closed reports whether a channel is that nobody sends on.
func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// terminate asks a program to end, just after it has called begin, and kills it after the grace, or earlier once hurry is closed. It
// reports whether it had to.
func terminate(p program, begin func(), grace time.Duration, hurry <-chan struct{}) (killed bool) {
	p.stop(begin)
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
