package real

import (
	"time"

	"github.com/leasestorm/leasestorm/sim/history"
)

func (inj *injection) sessionAdd() {
	if !inj.writable() {
		return
	}
	defer inj.redis.give()
	inj.begin()
	_, err := inj.work.add(inj.ctx, int(max(1, inj.Ms)))
	inj.failed(err)
}

func (inj *injection) sessionRemove() {
	if !inj.writable() {
		return
	}
	defer inj.redis.give()
	if inj.picked() {
		inj.begin()
		inj.failed(inj.work.change(inj.ctx, inj.session, history.SessionRemoved))
	}
}

func (inj *injection) sessionPause() {
	if !inj.sessionPaused() {
		return
	}
	inj.last()
	if inj.writable() {
		inj.failed(inj.work.change(inj.ctx, inj.session, history.SessionResumed))
		inj.redis.give()
	}
	inj.end()
}

func (inj *injection) sessionPaused() bool {
	if !inj.writable() {
		return false
	}
	defer inj.redis.give()
	if !inj.picked() {
		return false
	}
	inj.begin()
	inj.failed(inj.work.change(inj.ctx, inj.session, history.SessionPaused))
	return true
}

func (inj *injection) pollSlow() {
	if !inj.picked() {
		return
	}
	inj.begin()
	inj.target.Slow(inj.session, time.Duration(inj.Ms)*time.Millisecond)
	inj.last()
	inj.target.Slow(inj.session, 0)
	inj.end()
}

func (inj *injection) pollHang() {
	if !inj.picked() {
		return
	}
	inj.begin()
	release := inj.target.Hang(inj.session)
	inj.last()
	release()
	inj.end()
}
