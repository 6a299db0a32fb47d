package wasm

import (
	"context"
	"errors"
	"iter"
	"strings"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/sys"

	"github.com/leasestorm/leasestorm/sim/guest"
)

// limits are what a program may do in one Run, that is, without waiting.
type limits struct {
	busy  int64  // ns of virtual time
	calls int    // calls of the host
	loops uint64 // passes of loops, which take some 10 s
}

var usualLimits = limits{busy: 1e9, calls: 1_000_000, loops: 1_000_000_000}

const (
	sigterm    = 15
	killedCode = 128 + sigterm // exit code after a signal that is not handled, as shells have it
)

// What a signal does, as package os/signal of the program says.
const (
	signalEnds = iota
	signalComes
	signalIgnored
)

// instantiate returns an instance whose code has not run yet. The context is that of the calls of the host.
type instantiate func(context.Context) (api.Module, error)

// program is one instance. Its code runs in a coroutine: poll_oneoff yields the time to run again.
type program struct {
	instantiate instantiate
	host        guest.Host
	env         []string
	limits      limits

	resume func() (next int64, waits bool)
	kill   func()
	yield  func(next int64) bool
	end    *guest.State // set by an end
	fell   string       // why the program is being stopped
	wrong  any          // panic of the host

	files    map[int32]*file
	lastFile int32
	signals  *file
	sigterm  int32 // what the signal does
	pending  bool  // a signal came that ends the program

	budget api.MutableGlobal // of loops in this Run; nil before the first

	began int64 // monotonic clock at the begin of this Run
	calls int   // of the host in this Run
}

// inside is the key of the program in the context of its calls.
type inside struct{}

func newProgram(i instantiate, env []string, h guest.Host) *program {
	p := &program{instantiate: i, env: env, host: h, limits: usualLimits, lastFile: 2}
	p.signals = &file{}
	p.files = map[int32]*file{0: {ended: true}, 1: {}, 2: {}}
	p.resume, p.kill = iter.Pull(func(yield func(int64) bool) {
		p.yield = yield
		end := p.main()
		p.end = &end
	})
	return p
}

// main runs the program to its end.
func (p *program) main() guest.State {
	ctx := context.WithValue(context.Background(), inside{}, p)
	instance, err := p.instantiate(ctx)
	if err != nil {
		return guest.State{Fell: "it did not start: " + err.Error()}
	}
	defer func() { _ = instance.Close(ctx) }()
	p.budget = instance.ExportedGlobal(budgetName).(api.MutableGlobal)
	p.budget.Set(p.limits.loops)
	_, err = instance.ExportedFunction("_start").Call(ctx)
	var exit *sys.ExitError
	switch {
	case p.wrong != nil:
		panic(p.wrong)
	case p.fell != "":
		return guest.State{Fell: p.fell}
	case errors.As(err, &exit):
		return guest.State{Exited: true, Code: exit.ExitCode()}
	case err != nil && int64(p.budget.Get()) < 0:
		return guest.State{Fell: "it computed for too long without waiting"}
	case err != nil:
		why, _, _ := strings.Cut(err.Error(), "\n")
		return guest.State{Fell: why}
	}
	return guest.State{Exited: true}
}

// Run implements guest.Program.
func (p *program) Run() guest.State {
	if p.pending && p.end == nil {
		p.kill()
		p.end = &guest.State{Exited: true, Code: killedCode}
	}
	if p.end == nil {
		p.began, _ = p.host.Clock()
		p.calls = 0
		if p.budget != nil {
			p.budget.Set(p.limits.loops)
		}
		if next, waits := p.resume(); waits {
			return guest.State{Next: next}
		}
	}
	return *p.end
}

// Kill implements guest.Program.
func (p *program) Kill() {
	p.kill()
	if p.end == nil {
		p.end = &guest.State{Fell: "it was killed"}
	}
}

// Signal implements guest.Program.
func (p *program) Signal() {
	switch p.sigterm {
	case signalEnds:
		p.pending = true
	case signalComes:
		p.signals.append([]byte{sigterm})
	}
}

// Connected implements guest.Program.
func (p *program) Connected(conn int32, failure string) {
	if f := p.files[conn]; f != nil && f.connecting {
		f.connecting = false
		f.failure = connectErrno(failure)
	}
}

// Deliver implements guest.Program.
func (p *program) Deliver(conn int32, b []byte) {
	if f := p.files[conn]; f != nil && !f.ended {
		f.append(b)
	}
}

// HangUp implements guest.Program.
func (p *program) HangUp(conn int32, reset bool) {
	f := p.files[conn]
	if f == nil {
		return
	}
	f.ended = true
	if reset {
		f.unread, f.reset, f.broken = nil, true, true
	}
}

// stop ends the program from within a call of the host.
func (p *program) stop(why string) {
	p.fell = why
	panic(sys.NewExitError(1))
}

// wait gives the control back until the next Run. A program that is killed meanwhile does not return from it.
func (p *program) wait(next int64) {
	if !p.yield(next) {
		p.stop("it was killed")
	}
}

// clock returns the host's clocks and stops a program that does not wait.
func (p *program) clock() (mono, wall int64) {
	mono, wall = p.host.Clock()
	if mono-p.began > p.limits.busy {
		p.stop("it ran for more than a second of virtual time without waiting")
	}
	return mono, wall
}

// count counts a call of the host and stops a program that has too many.
func (p *program) count() {
	if p.calls++; p.calls > p.limits.calls {
		p.stop("it called the system too often without waiting")
	}
}

// keepPanic keeps a panic of the host, which wazero would turn into an error of the program. Run panics with it.
func (p *program) keepPanic() {
	r := recover()
	if r == nil {
		return
	}
	if _, ends := r.(*sys.ExitError); !ends {
		p.wrong = r
	}
	panic(r)
}
