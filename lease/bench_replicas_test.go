package lease

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/redistest"
)

// twoGroups returns configurations without replicas and with two, for one master with two replicas.
func twoGroups(b *testing.B, cfg Config) (master *redistest.Server, client *redis.Client, groups [2]Config) {
	b.Helper()
	master = redistest.Start(b)
	host, port, _ := net.SplitHostPort(master.Addr())
	for range 2 {
		redistest.Start(b, redistest.Args("--replicaof", host+" "+port))
	}
	client = master.Client()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for strings.Count(master.Do("INFO", "replication").(string), "state=online") < 2 {
		<-tick.C
	}
	for i, replicas := range []int{0, 2} {
		c := cfg
		c.Replicas = replicas
		prefix := fmt.Sprintf("with-%d:", replicas)
		c.LeasePrefix, c.NodePrefix, c.EpochKey, c.Channel = prefix+"lease:", prefix+"node:", prefix+"epoch", prefix+"channel"
		groups[i] = c
		c = c.withDefaults()
		c.OpTimeout = max(c.OpTimeout, c.TTL/2) // a machine that stalls is no reason to begin without
		if err := storeOf(b, client, c).Bootstrap(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	return master, client, groups
}

// BenchmarkReplicatedRenew renews 10,000 leases in turns with and without the acknowledgement of one of two replicas.
func BenchmarkReplicatedRenew(b *testing.B) {
	master, client, groups := twoGroups(b, Config{})
	redisCPU := func() float64 { return info(b, master, "used_cpu_sys", "used_cpu_user") }
	ids := sessionIDs(10_000)
	var walls, cpus [2][]float64
	for b.Loop() {
		for i, cfg := range groups {
			m, watch := renewing(b, client, cfg, ids)
			for range renewalRounds {
				wall, cpu := watch.round(len(ids), redisCPU)
				walls[i], cpus[i] = append(walls[i], wall), append(cpus[i], cpu)
			}
			if err := m.Stop(); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(slices.Min(walls[1]), "acknowledged-ms")
	b.ReportMetric(slices.Min(walls[0]), "alone-ms")
	b.ReportMetric(slices.Min(walls[1])/slices.Min(walls[0]), "wall-ratio")
	b.ReportMetric(slices.Min(cpus[1])/slices.Min(cpus[0]), "redis-cpu-ratio")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkReplicatedAcquire acquires leases one by one, in turns with and without the acknowledgement of one of two replicas.
func BenchmarkReplicatedAcquire(b *testing.B) {
	_, client, groups := twoGroups(b, slowTimings(""))
	var keepers [2]*Keeper
	for i, cfg := range groups {
		cfg.InstanceID = "bench"
		keepers[i] = startKeeper(b, client, cfg)
	}
	const n = 2000
	var took [2][]time.Duration
	for b.Loop() {
		for range n {
			for i, k := range keepers {
				start := time.Now()
				h, err := k.Acquire(b.Context(), "lease")
				if err != nil {
					b.Fatal(err)
				}
				took[i] = append(took[i], time.Since(start))
				if err := h.Release(context.Background()); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	at := func(i, percent int) float64 {
		slices.Sort(took[i])
		return float64(took[i][len(took[i])*percent/100]) / 1e6
	}
	b.ReportMetric(at(1, 99), "acknowledged-p99-ms")
	b.ReportMetric(at(0, 99), "alone-p99-ms")
	b.ReportMetric(at(1, 99)-at(0, 99), "added-p99-ms")
	b.ReportMetric(at(1, 50)-at(0, 50), "added-p50-ms")
	b.ReportMetric(0, "ns/op")
}
