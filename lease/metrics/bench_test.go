package metrics

import (
	"context"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/leasestorm/leasestorm/lease/poll"
)

// BenchmarkPollCounted measures what counting adds to a poll.
func BenchmarkPollCounted(b *testing.B) {
	f, err := Poll(prometheus.NewRegistry(), func(context.Context, poll.Session) error { return nil })
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		_ = f(b.Context(), poll.Session{})
	}
}
