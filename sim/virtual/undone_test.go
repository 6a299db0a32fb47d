package virtual

import (
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/virtual/redis"
)

// switchBack makes the server that was deposed at a failover the master again, as it was then: its run and its data.
func (w *world) switchBack(old *redis.Data, run string) {
	w.servers.master.kill()
	w.servers.master.Wrote(redis.Change{Kind: redis.Flushed})
	w.servers.master.Restore(old)
	w.servers.master.start(false)
	w.servers.master.RunID = run
	w.servers.master.snapshot()
}

// A failover that is undone, after the successor has granted leases of the dead, gives nobody a second owner, and the fleet
// recovers: the old master is made to begin a new epoch, once, and not believed before.
func TestFailoverThatIsUndone(t *testing.T) { // G1, G3
	for seed := range uint64(20) {
		for _, back := range []time.Duration{500 * time.Millisecond, 2500 * time.Millisecond, 5 * time.Second, 9 * time.Second} {
			cfg := Config{Nodes: 5, Sessions: 50, TTL: 2 * time.Second, Storm: 30 * time.Second, Calm: 10 * time.Second}.withDefaults()
			plan := fault.Plan{Faults: []fault.Fault{
				{At: 8 * time.Second, Kind: fault.RedisFailover},
				{At: 8500 * time.Millisecond, Kind: fault.Crash, Target: fault.NodeTarget(1)},
				{At: 8600 * time.Millisecond, Kind: fault.Cut, For: 7 * time.Second, Target: fault.NodeTarget(2)},
			}}
			w := newWorld(cfg, plan, seed, nil)
			var old *redis.Data
			var run string
			var epochs []string
			at := int64(cfg.Start) + int64(8*time.Second)
			w.after(at-1, func() {
				old, run = w.servers.master.Copy(), w.servers.master.RunID
				epochs = append(epochs, w.servers.master.Epoch)
			})
			w.after(at+int64(back), func() {
				epochs = append(epochs, w.servers.master.Epoch)
				w.switchBack(old, run)
			})
			w.run()
			out := w.outcome()
			if epochs = append(epochs, w.servers.master.Epoch); epochs[2] == epochs[0] || epochs[2] == epochs[1] {
				t.Errorf("seed %d, back after %v: the old master was believed, or was not: epochs %q", seed, back, epochs)
			}
			if out.Overlaps+out.Falls > 0 || out.Unowned > 0 || out.Misowned > 0 {
				t.Errorf("seed %d, back after %v: %+v", seed, back, out)
			}
		}
	}
}
