package virtual

import (
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
)

// quiet runs cfg without a fault of the plan, with what meddle does to it, and wants G14 to hold.
func quiet(t *testing.T, cfg Config, meddle func(*world)) {
	t.Helper()
	var events []history.Event
	w := newWorld(cfg.withDefaults(), fault.Plan{}, 1, func(e history.Event) { events = append(events, e) })
	meddle(w)
	w.run()
	r, err := check.Judge(params(cfg, fault.Plan{}), inOrder(events), nil)
	if err != nil {
		t.Fatal(err)
	}
	v, _ := r.Verdict("G14")
	if v.Verdict != check.Pass {
		t.Errorf("G14 is %s: %s", v.Verdict, v.Detail)
	}
	t.Log(v.Loads)
}

// A key without an expiry is a foreign hand's work. It is asked about once a TTL, not as one that expires at once.
func TestForeignHandsKeyIsNotAskedAboutForEver(t *testing.T) { // G14
	cfg := Config{Nodes: 3, Sessions: 9, TTL: 3 * time.Second, Poll: time.Second / 2, Start: time.Second, Storm: 20 * time.Second, Calm: time.Second}
	quiet(t, cfg, func(w *world) {
		w.after(int64(5*time.Second), func() {
			w.servers.master.Obey(w.t, []string{"SET", "poll:lease:" + w.app.sessions[0].id, "somebody"})
		})
	})
}

// In a fleet so large that its looks are far apart, heartbeats are read before they expire: many at once, not each with a
// command of its own.
func TestHeartbeatsOfManyAreReadTogether(t *testing.T) { // G14
	quiet(t, Config{Nodes: 1000, Sessions: 2000, Start: 30 * time.Second, Storm: 60 * time.Second, Calm: time.Second}, func(*world) {})
}
