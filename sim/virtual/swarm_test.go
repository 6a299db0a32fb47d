package virtual

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/sim/history"
)

func TestSwarmX(t *testing.T) {
	k, _ := strconv.Atoi(os.Getenv("SEEDS"))
	from, _ := strconv.Atoi(os.Getenv("FROM"))
	fails := 0
	var steps uint64
	var vns int64
	for i := range k {
		seed := uint64(from + i)
		cfg, plan := Swarm(seed)
		cfg = cfg.withDefaults()
		var lastMove int64
		why := ""
		g4 := map[[2]string]bool{} // uncertain
		until := map[[2]string]int64{}
		live := map[string]bool{}
		slow := map[string]bool{}
		out, err := Run(cfg, plan, seed, func(e history.Event) {
			key := [2]string{e.Instance, e.Session}
			switch e.Kind {
			case history.Acquired:
				lastMove = e.T
				g4[key] = false
				until[key] = e.Until
			case history.Renewed:
				g4[key] = false
				until[key] = e.Until
			case history.RenewFailed:
				g4[key] = true
			case history.Lost, history.Released:
				g4[key] = true
			case history.Spawned:
				live[e.Instance] = true
			case history.Exited:
				delete(live, e.Instance)
			case history.FaultStart:
				if e.Reason == "freeze" || e.Reason == "check-send" || e.Reason == "suspend" || e.Reason == "clock-step" || e.Reason == "clock-drift" {
					slow[e.Instance] = true
				}
			case history.PollStart:
				if g4[key] || e.T >= until[key] {
					why += "G4 poll begins without trust; "
				}
			case history.PollEnd:
				if e.T > until[key]+int64(6*time.Millisecond) && !slow[e.Instance] {
					why += "G4 poll outlives; "
				}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		steps += out.Steps
		vns += out.VirtualNs
		lo, hi := 1<<30, 0
		for j, c := range out.Owned {
			if !out.Living[j] {
				continue
			}
			hi = max(hi, c)
			lo = min(lo, c)
		}
		end := int64(cfg.Start + cfg.Storm)
		if out.Alive > 0 {
			if hi-lo > 1 {
				why += "unbalanced "
			}
			if lastMove > end+int64(3*cfg.TTL) {
				why += "moved late " + time.Duration(lastMove-end).String() + " after the storm, TTL " + cfg.TTL.String() + " "
			}
		}
		if why != "" || out.First != "" || out.Unowned > 0 && out.Alive > 0 || out.Misowned > 0 {
			fails++
			if fails < 25 {
				t.Errorf("seed %d: %s nodes %d sess %d faults %d: overlaps %d falls %d %s; alive %d unowned %d misowned %d owned %v", seed, why[:min(200, len(why))], cfg.Nodes, cfg.Sessions, len(plan.Faults), out.Overlaps, out.Falls, out.First, out.Alive, out.Unowned, out.Misowned, out.Owned)
			}
		}
	}
	t.Logf("fails %d of %d, steps %d, virtual %d s", fails, k, steps, vns/1e9)
}
