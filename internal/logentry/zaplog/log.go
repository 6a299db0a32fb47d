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

// entriesMax is the length of the queue: three rounds of renewals of 10,000 leases. A waiting entry takes some 450 bytes, so a log that
// nobody reads takes 15 MB of a node's 128 MiB, and some more until the next collection.
const entriesMax = 1 << 15

// Log passes entries to a caller's logger through a queue, so that no caller waits for the reader of the log, not even under a lock or in
// the loop that renews. Safe for concurrent use.
type Log struct {
	*zap.Logger // its entries go through the queue

	base     *zap.Logger // the caller's
	instance string
	q        *queue.Queue[queued]
	shared   bool // another Log owns the queue and waits for it

	// Calls are the running functions of the user, from all Logs that share the queue, and the logger itself.
	Calls *callback.Calls
}

// queued is an entry in the queue.
type queued struct {
	to     *zap.Logger
	entry  zapcore.Entry
	fields []zap.Field
	late   func() []zap.Field // nil: the entry is whole
}

// NewLog returns a Log that writes to a logger. It shares the queue if the logger belongs to a Log.
func NewLog(to *zap.Logger, instance string) *Log {
	if c, ok := to.Core().(*core); ok {
		return &Log{Logger: to, base: c.to, instance: instance, q: c.q, shared: true, Calls: c.calls}
	}
	l := &Log{instance: instance}
	l.Calls = &callback.Calls{Panicked: l.panicked}
	l.lead(to)
	return l
}

// Beside returns a Log that writes to another logger, with l's Calls and its own queue.
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

// CallsOf returns the Calls of a logger that belongs to a Log, nil of any other.
func CallsOf(to *zap.Logger) *callback.Calls {
	if to != nil {
		if c, ok := to.Core().(*core); ok {
			return c.calls
		}
	}
	return nil
}

// Later logs an entry whose fields are made when it is written.
func (l *Log) Later(level zapcore.Level, at time.Time, message string, fields func() []zap.Field) {
	l.q.Put(queued{to: l.base, entry: zapcore.Entry{Level: level, Time: at, Message: message}, late: fields})
}

// Flush waits until all entries have been written or ctx has ended, and reports whether they were. If another Log owns the queue, Flush
// does not wait.
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

// Flushed calls Flush and returns stuck if it fails.
func (l *Log) Flushed(ctx context.Context, stuck error) error {
	if l.Flush(ctx) {
		return nil
	}
	return fmt.Errorf("%w: the reader of the log has stalled; entries are lost if this process ends now", stuck)
}

// panicked logs a panic of a function of the user.
func (l *Log) panicked(name string, with any) {
	l.Error(name+" panicked", zap.String("event", "listenerPanicked"), zap.String("instance", l.instance),
		zap.String("panic", fmt.Sprint(with)))
}

// Stack returns the field with the stack of a panic, if err is that of a panicked function.
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

// Check implements zapcore.Core. The caller's logger makes its other checks when the entry is written.
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

// Sync implements zapcore.Core. It does not wait; Flush does.
func (c *core) Sync() error { return nil }
