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

// Entries arrive in order and unchanged: with their time, their caller and the fields of their logger.
func TestLogTellsWhatWasSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to, seen := observer.New(zap.InfoLevel)
		l := NewLog(zap.New(to, zap.AddCaller()).With(zap.String("node", "n")), "a")
		at := time.Unix(1, 0)
		l.Debug("not written")
		l.Later(zap.InfoLevel, at, "first", func() []zap.Field { return []zap.Field{zap.Int("n", 1)} })
		l.With(zap.Int("n", 2)).Named("part").Warn("second")
		NewLog(l.Logger, "b").Info("third") // shares the queue
		l.Calls.Panicked("Config.Notify", errors.New("why"))
		if !l.Flush(t.Context()) {
			t.Fatal("not written")
		}
		all := seen.All()
		var said []string
		for _, e := range all {
			said = append(said, e.Message)
		}
		if got := strings.Join(said, ", "); got != "first, second, third, Config.Notify panicked" {
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

// stalled is a writer that blocks until it is closed.
type stalled chan struct{}

func (s stalled) Write(b []byte) (int, error) { <-s; return len(b), nil }
func (stalled) Sync() error                   { return nil }

// A stuck log delays nobody. Flush waits for the given time, and the log says how many entries are missing.
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

// Flush reports success for written entries even if its context has ended.
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
