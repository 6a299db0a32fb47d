package zaplog

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

var errStuck = errors.New("stuck")

// Entries arrive in order, as they were made: with their time, their caller, and the fields of the logger that they were said to.
func TestLogTellsWhatWasSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to, seen := observer.New(zap.InfoLevel)
		l := NewLog(zap.New(to, zap.AddCaller()).With(zap.String("node", "n")), "a")
		at := time.Unix(1, 0)
		l.Debug("not written")
		l.Later(zap.InfoLevel, at, "first", func() []zap.Field { return []zap.Field{zap.Int("n", 1)} })
		l.With(zap.Int("n", 2)).Named("part").Warn("second")
		NewLog(l.Logger, "b").Info("third") // shares the queue
		l.ListenerPanicked(errors.New("why"))
		if !l.Flush(t.Context()) {
			t.Fatal("not written")
		}
		all := seen.All()
		var said []string
		for _, e := range all {
			said = append(said, e.Message)
		}
		if got := strings.Join(said, ", "); got != "first, second, third, a listener of lease events panicked" {
			t.Fatal(got)
		}
		if !all[0].Time.Equal(at) || all[0].ContextMap()["n"] != int64(1) {
			t.Errorf("%+v", all[0])
		}
		f := all[1].ContextMap()
		if f["n"] != int64(2) || f["node"] != "n" || all[1].LoggerName != "part" || !strings.HasSuffix(all[1].Caller.File, "log_test.go") {
			t.Errorf("%+v", all[1])
		}
		if f := all[3].ContextMap(); f["panic"] != "why" || f["instance"] != "a" || f["event"] != "listenerPanicked" {
			t.Errorf("%+v", f)
		}
	})
}

// hostile is a value of the caller's that panics whenever it is asked.
type hostile struct{}

func (hostile) Error() string                { panic("no words") }
func (hostile) String() string               { panic("no words") }
func (hostile) MarshalJSON() ([]byte, error) { panic("no words") }

// notes is an error of the caller's, who goes on writing it.
type notes struct{ text string }

func (n *notes) Error() string { return n.text }

// What is the caller's is put into words when it is said: the log's own goroutine finds words alone.
func TestLogAsksNothingOfTheCallersLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var written strings.Builder
		out := zapcore.AddSync(&written)
		l := NewLog(zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), out, zap.InfoLevel)), "a")
		changes := &notes{text: "as it was"}
		l.Error("first", zap.Error(hostile{}), zap.Stringer("stringer", hostile{}), zap.Any("any", map[string]any{"x": hostile{}}),
			zap.Reflect("panic", []error{hostile{}}), zap.NamedError("changes", changes))
		changes.text = "as it is"
		if !l.Flush(t.Context()) {
			t.Fatal("not written")
		}
		got := written.String()
		if strings.Count(got, "PANIC=") != 4 || !strings.Contains(got, `"changes":"as it was"`) {
			t.Error(got)
		}
	})
}

// panics is a core of the caller's that panics at some entries, or when it is asked for their level, and tells of the others.
type panics struct{ zapcore.Core }

func (p panics) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	return ce.AddCore(e, p)
}

func (p panics) Enabled(l zapcore.Level) bool {
	if l == zapcore.WarnLevel {
		panic("no level")
	}
	return p.Core.Enabled(l)
}

func (p panics) Write(e zapcore.Entry, fields []zapcore.Field) error {
	if e.Message == "bad" {
		panic("no\x1bwords")
	}
	return p.Core.Write(e, fields)
}

// A core, or a handler of slog, that panics at an entry misses that entry. The program and the entries that follow go on.
func TestLogThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to, seen := observer.New(zap.InfoLevel)
		var errs strings.Builder
		l := NewLog(zap.New(panics{to}, zap.ErrorOutput(zapcore.AddSync(&errs))), "a")
		l.Error("bad")
		l.Warn("told on standard error")
		l.Info("good")
		if !l.Flush(t.Context()) {
			t.Fatal("not written")
		}
		if all := seen.All(); len(all) != 1 || all[0].Message != "good" {
			t.Errorf("%+v", all)
		}
		if got := errs.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, `"bad"`) || !strings.Contains(got, `no\u001bwords`) {
			t.Errorf("%q", got)
		}
	})
}

// stalled is what is written to, and nobody reads until it is closed.
type stalled chan struct{}

func (s stalled) Write(b []byte) (int, error) { <-s; return len(b), nil }
func (stalled) Sync() error                   { return nil }

// A log that is stuck holds up nobody, is waited for as long as is said, and tells how much is missing.
func TestStuckLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(stalled)
		to, seen := observer.New(zap.InfoLevel)
		stuck := zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), gate, zap.InfoLevel)
		l := NewLog(zap.New(zapcore.NewTee(stuck, to)), "a")
		l.Info("first")
		synctest.Wait()
		for range entriesMax - 1 + 5 {
			l.Info("more")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.Flushed(ctx, errStuck); !errors.Is(err, errStuck) {
			t.Errorf("%v, want that it is stuck", err)
		}
		close(gate)
		if err := l.Flushed(t.Context(), errStuck); err != nil {
			t.Error(err)
		}
		missing := seen.FilterField(zap.String("event", "logDropped")).All()
		if len(missing) != 1 || missing[0].ContextMap()["entries"] != int64(5) {
			t.Errorf("%+v", missing)
		}
	})
}

// What was written is not said to be stuck because the time to wait for it is over.
func TestFlushedAfterTheEnd(t *testing.T) {
	l := NewLog(zap.NewNop(), "a")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 { // a select would choose
		if err := l.Flushed(ended, errStuck); err != nil {
			t.Fatal(err)
		}
	}
}
