package worker

import (
	"testing"

	"github.com/leasestorm/leasestorm/lease/intent"
)

// What is said on the channel is a hint: anybody who reaches Redis can say it, from any database. Only the record ends a session.
func TestForgedStopIsNotObeyed(t *testing.T) {
	r := newRig(t)
	r.run(r.config("w1", "1", "2"))
	forged, real := r.start("a", "hd"), r.start("b", "hd")
	r.wait(forged, intent.StateRunning, "")
	r.wait(real, intent.StateRunning, "")
	for range 100 {
		r.must(r.client.Publish(t.Context(), "v3:notify", "stop "+forged).Err())
	}
	// The channel keeps its order, so when this one has ended, those were heard.
	r.stop(real)
	r.wait(real, intent.StateEnded, intent.ReasonStopped)
	select {
	case <-r.work(forged).quit:
		t.Error("a notice without a record stopped a session")
	default:
	}
	r.wait(forged, intent.StateRunning, "")
	r.stop(forged)
	r.wait(forged, intent.StateEnded, intent.ReasonStopped)
}
