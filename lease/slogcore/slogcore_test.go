package slogcore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"reflect"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/leasestorm/leasestorm/internal/keepertest"
	"github.com/leasestorm/leasestorm/lease"
)

// lines reads what a JSON handler wrote.
func lines(t *testing.T, b *bytes.Buffer) (all []map[string]any) {
	t.Helper()
	for d := json.NewDecoder(b); d.More(); {
		var one map[string]any
		if err := d.Decode(&one); err != nil {
			t.Fatal(err)
		}
		all = append(all, one)
	}
	return all
}

// TestEntriesOfALease: the entries of a keeper arrive under the same names.
func TestEntriesOfALease(t *testing.T) {
	var b bytes.Buffer
	keepertest.Over(t, lease.Config{TTL: 3 * time.Second, OpTimeout: time.Second, InstanceID: "one",
		Logger: Logger(slog.NewJSONHandler(&b, nil))})
	events := map[any]map[string]any{}
	for _, line := range lines(t, &b) {
		events[line["event"]] = line
	}
	for event, want := range map[string]map[string]any{
		"acquired": {"instance": "one", "endpoint": "thing", "ttl": 3000.0, "level": "INFO", "msg": "Lease acquired"},
		"released": {"instance": "one", "endpoint": "thing", "reason": "requested", "level": "INFO", "msg": "Lease released"},
	} {
		for key, value := range want {
			if events[event][key] != value {
				t.Errorf("%s: %s is %v, want %v", event, key, events[event][key], value)
			}
		}
		if fence, _ := events[event]["fence"].(float64); fence == 0 {
			t.Errorf("%s has no fence: %v", event, events[event])
		}
	}
}

// TestFields: slog writes each kind of field in its usual form.
func TestFields(t *testing.T) {
	var b bytes.Buffer
	l := Logger(slog.NewJSONHandler(&b, &slog.HandlerOptions{Level: slog.LevelDebug})).Named("n").With(zap.String("a", "b"))
	l.Debug("m", zap.Int64("i", 7), zap.Bool("yes", true), zap.Bool("no", false), zap.Float64("f", 0.5), zap.Skip(),
		zap.Duration("d", time.Second), zap.Error(errors.New("e")), zap.Any("p", []int{1, 2}), zap.Uint64("u", 9))
	l.With(zap.String("x", "y"), zap.Namespace("g")).Warn("m2", zap.Int("i", 1))
	l.DPanic("m3")
	got := lines(t, &b)
	for i := range got {
		delete(got[i], "time")
	}
	want := []map[string]any{
		{"level": "DEBUG", "msg": "m", "logger": "n", "a": "b", "i": 7.0, "yes": true, "no": false, "f": 0.5, "d": 1e9,
			"error": "e", "p": []any{1.0, 2.0}, "u": 9.0},
		{"level": "WARN", "msg": "m2", "a": "b", "x": "y", "g": map[string]any{"i": 1.0, "logger": "n"}},
		{"level": "ERROR", "msg": "m3", "a": "b", "logger": "n"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v\nwant %v", got, want)
	}
}

// TestLevels: levels keep their names, and an entry that the handler does not want is not made.
func TestLevels(t *testing.T) {
	for of, want := range map[zapcore.Level]slog.Level{
		zapcore.DebugLevel: slog.LevelDebug, zapcore.InfoLevel: slog.LevelInfo, zapcore.WarnLevel: slog.LevelWarn,
		zapcore.ErrorLevel: slog.LevelError, zapcore.FatalLevel: slog.LevelError,
	} {
		if got := level(of); got != want {
			t.Errorf("%v is %v, want %v", of, got, want)
		}
	}
	var b bytes.Buffer
	Logger(slog.NewJSONHandler(&b, &slog.HandlerOptions{Level: slog.LevelWarn})).Info("not wanted")
	if b.Len() > 0 {
		t.Errorf("written was %s", b.String())
	}
}

// failing answers every record with err.
type failing struct {
	slog.Handler
	err error
}

func (k failing) Handle(context.Context, slog.Record) error { return k.err }

// TestErrorOfTheHandler: zap reports the handler's error.
func TestErrorOfTheHandler(t *testing.T) {
	want := errors.New("full")
	c := core{failing{slog.DiscardHandler, want}}
	if err := c.Write(zapcore.Entry{}, nil); !errors.Is(err, want) {
		t.Errorf("%v, want %v", err, want)
	}
}
