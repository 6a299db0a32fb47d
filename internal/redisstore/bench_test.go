package redisstore_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/internal/redistest"
)

// rawRenew does the least possible work: it compares the owner and extends the lease.
var rawRenew = redis.NewScript(`
local n = 0
for i = 1, #KEYS do
  if redis.call('GET', KEYS[i]) == ARGV[1] then
    redis.call('PEXPIRE', KEYS[i], ARGV[2])
    n = n + 1
  end
end
return n`)

const (
	benchLeases = 10_000
	benchBatch  = 100
	slowFrom    = 300 // µs; the log omits faster calls
)

// BenchmarkRenew renews 10,000 leases in batches of 100, by the store and by the raw script in turns on one Redis. It reports wall time,
// Redis CPU time, their ratios, and the longest call. Wall time and the longest call are those of the best round, because disturbances only
// add time. CPU time is the mean.
func BenchmarkRenew(b *testing.B) {
	srv := redistest.Start(b, redistest.Args("--slowlog-max-len", "100000"))
	s, epoch := bootstrapped(b, srv.Client(), redisstore.Options{})
	raw := srv.Client()
	var ops []*core.Op
	var keys [][]string
	for start := 0; start < benchLeases; start += benchBatch {
		var ids, names []string
		for i := range benchBatch {
			id := fmt.Sprintf("6b1f0e1a-6a52-4c6e-9f0b-%012d", start+i)
			ids, names = append(ids, id), append(names, redisstore.DefaultLeasePrefix+id)
		}
		op := acquire(epoch, "host-1736598400000000000-a1b2c3d4", ids...)
		if a := s.Do(b.Context(), op); a.Failure != core.FailNone || a.Results[0].Outcome != core.OutGranted {
			b.Fatalf("%+v", a)
		}
		op.Kind = core.OpRenew
		ops, keys = append(ops, op), append(keys, names)
	}
	store := func() {
		for _, op := range ops {
			if a := s.Do(b.Context(), op); a.Failure != core.FailNone || a.Results[99].Outcome != core.OutRenewed {
				b.Fatalf("%+v", a)
			}
		}
	}
	bare := func() {
		for i, k := range keys {
			n, err := rawRenew.Run(b.Context(), raw, k, ops[i].Owner, 30_000).Int()
			if err != nil || n != benchBatch {
				b.Fatal(n, err)
			}
		}
	}
	store()
	bare()
	wall, longest := [2]float64{math.Inf(1), math.Inf(1)}, math.Inf(1)
	var cpu [2]float64
	for b.Loop() {
		for i, f := range []func(){store, bare} {
			srv.Do("CONFIG", "SET", "slowlog-log-slower-than", slowFrom)
			srv.Do("SLOWLOG", "RESET")
			before, start := redisCPU(b, srv), time.Now()
			f()
			wall[i] = min(wall[i], float64(time.Since(start))/1e6)
			cpu[i] += redisCPU(b, srv) - before
			if i == 0 {
				longest = min(longest, slowest(srv))
			}
		}
	}
	n := float64(b.N)
	b.ReportMetric(wall[0], "store-ms")
	b.ReportMetric(wall[1], "raw-ms")
	b.ReportMetric(wall[0]/wall[1], "wall-ratio")
	b.ReportMetric(cpu[0]/n, "store-redis-ms")
	b.ReportMetric(cpu[0]/cpu[1], "redis-cpu-ratio")
	b.ReportMetric(longest, "longest-call-ms")
	b.ReportMetric(0, "ns/op")
}

// redisCPU returns the CPU time of Redis, in ms.
func redisCPU(b *testing.B, srv *redistest.Server) float64 {
	b.Helper()
	var sum float64
	for _, line := range strings.Split(srv.Do("INFO", "cpu").(string), "\r\n") {
		for _, name := range []string{"used_cpu_sys:", "used_cpu_user:"} {
			if v, ok := strings.CutPrefix(line, name); ok {
				var seconds float64
				if _, err := fmt.Sscan(v, &seconds); err != nil {
					b.Fatal(err)
				}
				sum += 1000 * seconds
			}
		}
	}
	return sum
}

// slowest returns the longest call in the slow log, in ms, at least slowFrom.
func slowest(srv *redistest.Server) float64 {
	most := int64(slowFrom)
	for _, entry := range srv.Do("SLOWLOG", "GET", 100_000).([]any) {
		most = max(most, entry.([]any)[2].(int64))
	}
	return float64(most) / 1000
}

// BenchmarkLook reads the owners of 10,000 sessions and 50 heartbeats.
func BenchmarkLook(b *testing.B) {
	srv := redistest.Start(b)
	s, epoch := bootstrapped(b, srv.Client(), redisstore.Options{})
	var all []string
	for n := range 50 {
		var ids []string
		for i := range 200 {
			ids = append(ids, fmt.Sprintf("6b1f0e1a-6a52-4c6e-9f0b-%012d", 200*n+i))
		}
		owner := fmt.Sprintf("host-1736598400000000000-%08d", n)
		s.Do(b.Context(), acquire(epoch, owner, ids...))
		s.Do(b.Context(), &core.Op{Kind: core.OpBeat, Epoch: epoch, Owner: owner, TTL: int64(30 * time.Second)})
		all = append(all, ids...)
	}
	sessions := core.NewSessions(all)
	b.ReportAllocs()
	longest, cpu := math.Inf(1), redisCPU(b, srv)
	for b.Loop() {
		srv.Do("CONFIG", "SET", "slowlog-log-slower-than", slowFrom)
		srv.Do("SLOWLOG", "RESET")
		a := s.Look(b.Context(), &core.Op{Kind: core.OpLook, Epoch: epoch}, sessions)
		if a.Failure != core.FailNone || len(a.Look.Nodes) != 50 || a.Look.Owners[0] == "" {
			b.Fatalf("%+v", a)
		}
		longest = min(longest, slowest(srv))
	}
	b.ReportMetric((redisCPU(b, srv)-cpu)/float64(b.N), "redis-ms")
	b.ReportMetric(longest, "longest-call-ms")
}
