// Package zaplog turns the fields of log entries into those of zap.
package zaplog

import (
	"os"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/leasestorm/leasestorm/internal/logentry"
)

// Default returns the logger of a configuration without one: warnings and errors to standard error, one JSON object per line.
func Default() *zap.Logger {
	enc := zap.NewProductionEncoderConfig()
	enc.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	return zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(enc), zapcore.Lock(os.Stderr), zapcore.WarnLevel))
}

// Append appends the fields to dst.
func Append(dst []zap.Field, fields []logentry.Field) []zap.Field {
	for i := range fields {
		switch f := &fields[i]; f.Kind {
		case logentry.Number:
			dst = append(dst, zap.Int64(f.Key, f.Number))
		default:
			dst = append(dst, zap.String(f.Key, f.Text))
		}
	}
	return dst
}
