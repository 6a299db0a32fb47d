package zaplog

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/leasestorm/leasestorm/internal/callback"
	"github.com/leasestorm/leasestorm/internal/queue"
)

// entriesMax is how many entries a log may be behind before it misses some: three rounds of renewals of 10,000 leases. An entry that waits
// takes some 450 bytes, so a log that nobody reads takes 15 MB of the 128 MiB that a node is given, and some more until that is
// collected.
const entriesMax = 1 << 15

// Log is the one way to a caller's logger: a queue, so that whoever logs never waits for whoever reads the log, be it under a lock or in
// the loop that renews. Safe for concurrent use.
type Log struct {
	*zap.Logger // whose entries go through the queue

	base     *zap.Logger // the caller's
	instance string
	q        *queue.Queue[queued]
	shared   bool // the queue is another's, who waits for it

	// Calls are the functions of the user that run now: those of all who share the queue, and the logger itself.
	Calls *callback.Calls
}

// queued is an entry on its way.
type queued struct {
	to     *zap.Logger
	entry  zapcore.Entry
	fields []zap.Field
	late   func() []zap.Field // nil: the entry is whole
}

// NewLog returns the way to a logger. A logger that is the end of such a way already stays the way it is.
func NewLog(to *zap.Logger, instance string) *Log {
	if c, ok := to.Core().(*core); ok {
		return &Log{Logger: to, base: c.to, instance: instance, q: c.q, shared: true, Calls: c.calls}
	}
	l := &Log{instance: instance}
	l.Calls = &callback.Calls{Panicked: l.panicked}
	l.lead(to)
	return l
}

// Beside returns the way to another logger, with l's Calls and a queue of its own.
func (l *Log) Beside(to *zap.Logger) *Log {
	other := &Log{instance: l.instance, Calls: l.Calls}
	other.lead(to)
	return other
}

func (l *Log) lead(to *zap.Logger) {
	l.base = to
	l.q = queue.New(entriesMax, l.write)
	l.Logger = to.WithOptions(zap.WrapCore(func(zapcore.Core) zapcore.Core { return &core{to: to, q: l.q, calls: l.Calls} }))
}

// CallsOf returns the Calls of a logger that is the end of a way, nil of any other.
func CallsOf(to *zap.Logger) *callback.Calls {
	if to != nil {
		if c, ok := to.Core().(*core); ok {
			return c.calls
		}
	}
	return nil
}

// Later logs an entry whose fields are made by whoever writes it.
func (l *Log) Later(level zapcore.Level, at time.Time, message string, fields func() []zap.Field) {
	l.q.Put(queued{to: l.base, entry: zapcore.Entry{Level: level, Time: at, Message: message}, late: fields})
}

// Flush waits until everything that was logged has been written, or ctx has ended, and reports whether it was. Where the queue is
// another's, that one waits.
func (l *Log) Flush(ctx context.Context) bool {
	if l.shared {
		return true
	}
	idle := l.q.Idle()
	select {
	case <-idle:
		return true
	default: // also where ctx has ended by now
	}
	select {
	case <-idle:
		return true
	case <-ctx.Done():
		return false
	}
}

// Flushed is Flush with an error that is stuck.
func (l *Log) Flushed(ctx context.Context, stuck error) error {
	if l.Flush(ctx) {
		return nil
	}
	return fmt.Errorf("%w: the reader of the log has stalled; entries are lost if this process ends now", stuck)
}

// panicked logs that a function which the caller gave panicked.
func (l *Log) panicked(name string, with any) {
	l.Error(name+" panicked", zap.String("event", "listenerPanicked"), zap.String("instance", l.instance),
		zap.String("panic", fmt.Sprint(with)))
}

// Stack is where a caller's function panicked that failed with err, if it did.
func Stack(err error) zap.Field {
	if stack := callback.Stack(err); stack != nil {
		return zap.ByteString("stack", stack)
	}
	return zap.Skip()
}

// write runs in the queue's own goroutine.
func (l *Log) write(e queued, dropped int64) {
	defer l.Calls.Begin("the Logger", 0).End()
	if dropped > 0 {
		l.base.Error("the log is too slow: entries are missing", zap.String("event", "logDropped"),
			zap.String("instance", l.instance), zap.Int64("entries", dropped))
	}
	ce := e.to.Check(e.entry.Level, e.entry.Message)
	if ce == nil {
		return
	}
	if e.late != nil {
		ce.Time = e.entry.Time
		ce.Write(e.late()...)
		return
	}
	ce.Entry = e.entry
	ce.Write(e.fields...)
}

// core is a zapcore.Core that puts entries into the queue.
type core struct {
	to    *zap.Logger
	q     *queue.Queue[queued]
	calls *callback.Calls
}

// Enabled implements zapcore.LevelEnabler.
func (c *core) Enabled(l zapcore.Level) bool { return c.to.Core().Enabled(l) }

// With implements zapcore.Core.
func (c *core) With(fields []zapcore.Field) zapcore.Core {
	return &core{c.to.With(fields...), c.q, c.calls}
}

// Check implements zapcore.Core. What else the caller's logger asks is asked when the entry is written.
func (c *core) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

// Write implements zapcore.Core.
func (c *core) Write(e zapcore.Entry, fields []zapcore.Field) error {
	c.q.Put(queued{to: c.to, entry: e, fields: fields})
	return nil
}

// Sync implements zapcore.Core. Who wants to wait for the log says for how long: Flush.
func (c *core) Sync() error { return nil }
