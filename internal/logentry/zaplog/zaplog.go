// Package zaplog turns the fields of log entries into those of zap.
package zaplog

import (
	"os"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/leasestorm/leasestorm/internal/logentry"
)

// Default is the logger of who names none: warnings and errors, on standard error, one JSON object a line.
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
