// Package zaplog turns the fields of log entries into those of zap.
package zaplog

import (
	"time"

	"go.uber.org/zap"

	"github.com/leasestorm/leasestorm/internal/logentry"
)

// Append appends the fields to dst.
func Append(dst []zap.Field, fields []logentry.Field) []zap.Field {
	for i := range fields {
		switch f := &fields[i]; f.Kind {
		case logentry.Number:
			dst = append(dst, zap.Int64(f.Key, f.Number))
		case logentry.Duration:
			dst = append(dst, zap.Duration(f.Key, time.Duration(f.Number)))
		default:
			dst = append(dst, zap.String(f.Key, f.Text))
		}
	}
	return dst
}
