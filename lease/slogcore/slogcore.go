// Package slogcore sends the log entries of leases, polls, elections and
// workers to a log/slog handler, so a program need not import zap:
//
//	cfg.Logger = slogcore.Logger(slog.Default().Handler())
package slogcore

import (
	"context"
	"log/slog"
	"math"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Logger returns a logger for Config.Logger that writes to h: the same entries
// with the same fields (docs/log.md), at slog's levels. A level that h does not
// enable costs as little as one that zap does not enable. zap writes an error
// of h to standard error.
func Logger(h slog.Handler) *zap.Logger { return zap.New(core{h}) }

// core is a zapcore.Core on a handler.
type core struct{ h slog.Handler }

// level converts a zap level to slog. zap's levels differ by 1, slog's by 4. All levels above error become error.
func level(l zapcore.Level) slog.Level {
	if l > zapcore.ErrorLevel {
		return slog.LevelError
	}
	return slog.Level(4 * l)
}

// Enabled implements zapcore.LevelEnabler.
func (c core) Enabled(l zapcore.Level) bool { return c.h.Enabled(context.Background(), level(l)) }

// With implements zapcore.Core.
func (c core) With(fields []zapcore.Field) zapcore.Core {
	for i, f := range fields {
		if f.Type == zapcore.NamespaceType {
			return core{c.h.WithAttrs(attrs(fields[:i])).WithGroup(f.Key)}.With(fields[i+1:])
		}
	}
	return core{c.h.WithAttrs(attrs(fields))}
}

// Check implements zapcore.Core.
func (c core) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

// Write implements zapcore.Core.
func (c core) Write(e zapcore.Entry, fields []zapcore.Field) error {
	r := slog.NewRecord(e.Time, level(e.Level), e.Message, e.Caller.PC)
	if e.LoggerName != "" {
		r.AddAttrs(slog.String("logger", e.LoggerName))
	}
	r.AddAttrs(attrs(fields)...)
	if e.Stack != "" {
		r.AddAttrs(slog.String("stack", e.Stack))
	}
	return c.h.Handle(context.Background(), r)
}

// Sync implements zapcore.Core. A handler has no buffer to flush.
func (core) Sync() error { return nil }

// attrs converts the fields. zap's own encoders convert types that this code does not write.
func attrs(fields []zapcore.Field) []slog.Attr {
	all := make([]slog.Attr, 0, len(fields))
	for _, f := range fields {
		switch f.Type {
		case zapcore.SkipType:
		case zapcore.StringType:
			all = append(all, slog.String(f.Key, f.String))
		case zapcore.Int64Type, zapcore.Int32Type, zapcore.Int16Type, zapcore.Int8Type:
			all = append(all, slog.Int64(f.Key, f.Integer))
		case zapcore.BoolType:
			all = append(all, slog.Bool(f.Key, f.Integer == 1))
		case zapcore.Float64Type:
			all = append(all, slog.Float64(f.Key, math.Float64frombits(uint64(f.Integer))))
		case zapcore.ErrorType:
			all = append(all, slog.Any(f.Key, f.Interface))
		default:
			enc := zapcore.NewMapObjectEncoder()
			f.AddTo(enc)
			for key, value := range enc.Fields {
				all = append(all, slog.Any(key, value))
			}
		}
	}
	return all
}
