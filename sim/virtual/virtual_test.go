package virtual

import (
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
)

func TestColdStart(t *testing.T) {
	var n int
	out, err := Run(Config{Nodes: 10, Sessions: 100, Poll: 5 * time.Second, Calm: time.Minute}, fault.Plan{}, 1,
		func(e history.Event) {
			n++
			if n < 400 {
				t.Logf("%12v %-14v %s %s f%d until %v n%d %s", time.Duration(e.T), e.Kind, e.Instance, e.Session, e.Fence, time.Duration(e.Until), e.N, e.Reason)
			}
		})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", out)
}
