package sim

import (
	"context"
	"fmt"
	"iter"
	"runtime/debug"

	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/nodelogs"
	"github.com/leasestorm/leasestorm/sim/real"
	"github.com/leasestorm/leasestorm/sim/virtual"
)

// PanicError is a panic of the tested code or of the engine, with its stack.
type PanicError struct {
	value any
	stack []byte
}

func (p *PanicError) Error() string { return fmt.Sprintf("panic: %v\n%s", p.value, p.stack) }

// JudgeVirtual runs a plan on the virtual engine and judges its n hashed events as they come, without storing them. A panic becomes a
// PanicError.
func JudgeVirtual(ctx context.Context, c Config, plan fault.Plan, bend Breaker) (v []check.Verdict, out Outcome, n int64,
	err error,
) {
	defer func() {
		if p := recover(); p != nil {
			err = &PanicError{p, debug.Stack()}
		}
	}()
	sum, logs := history.NewSum(), nodelogs.New()
	var events iter.Seq2[history.Event, error] = func(yield func(history.Event, error) bool) {
		more := true
		var failed error
		out, failed = runVirtual(ctx, c, plan, bend, func(e history.Event) {
			sum.Add(&e)
			if more {
				more = yield(e, nil)
			}
		}, func(e *virtual.LogEntry) { judged(logs, e) })
		if failed != nil && more {
			yield(history.Event{}, failed)
		}
	}
	r, err := check.Judge(params(c, plan, real.Outcome{Tap: true}, virtualRedis.Kind), events, logs)
	out.SHA256 = sum.String()
	return r.Verdicts, out, r.Stats.Events, err
}

// PlayVirtual runs a plan like JudgeVirtual, without the judge. Outcome.SHA256 identifies the history.
func PlayVirtual(ctx context.Context, c Config, plan fault.Plan, bend Breaker) (Outcome, error) {
	sum := history.NewSum()
	out, err := runVirtual(ctx, c, plan, bend, func(e history.Event) { sum.Add(&e) }, nil)
	out.SHA256 = sum.String()
	return out, err
}
