package election

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/latency"
	"github.com/leasestorm/leasestorm/internal/redistest"
)

func BenchmarkIsLeader(b *testing.B) {
	_, client := elected(b)
	m := join(b, client, quick("a"))
	m.wait(EventLeadershipAcquired)
	var clock, read time.Duration
	n := 0
	b.ReportAllocs()
	for b.Loop() { // in turns, so that both have the same machine
		const turns = 1000
		start := time.Now()
		for range turns {
			_ = time.Now()
		}
		clock += time.Since(start)
		start = time.Now()
		for range turns {
			if m.IsLeader() {
				n++
			}
		}
		read += time.Since(start)
	}
	if n == 0 {
		b.Fatal("never led")
	}
	b.ReportMetric(float64(read)/float64(clock), "x-time.Now")
}

// side is the number of concurrent elections.
const side = 200

// BenchmarkFailover measures how long 200 elections of one process are without a leader: from a clean stop or, if the process is killed,
// from the expiry of the leader key, which comes within a TTL of the crash.
func BenchmarkFailover(b *testing.B) {
	for _, end := range []string{"stop", "crash"} {
		b.Run(end, func(b *testing.B) {
			server, client := elected(b)
			latency.Report(b, func(int) []time.Duration { return failover(b, server, client, end) })
		})
	}
}

// benchTTL is the leader TTL of the benchmark, of both processes.
const benchTTL = 3 * time.Second

func benchConfig(id string) Config {
	return Config{InstanceID: id, LeaderTTL: benchTTL}
}

func failover(b *testing.B, server *redistest.Server, client *redis.Client, end string) []time.Duration {
	b.Helper()
	exe, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	first := exec.Command(exe)
	first.Env = append(os.Environ(), asLeader+"="+server.URL())
	first.Stderr = os.Stderr
	in, err := first.StdinPipe() // it stops when this closes
	if err != nil {
		b.Fatal(err)
	}
	if err := first.Start(); err != nil {
		b.Fatal(err)
	}
	redistest.Eventually(b, "the first process leads all", func() bool { return leaderKeys(client, "first") == side })
	g, all := many(b, client, benchConfig("second"), side)
	redistest.Eventually(b, "the second waits", func() bool {
		for _, e := range all {
			if l, ok := e.Leader(); !ok || l.Fence == 0 {
				return false
			}
		}
		return true
	})
	after(benchTTL / 2)
	from := make([]time.Time, side)
	if end == "crash" {
		_ = first.Process.Kill()
		from = expiries(b, client)
	} else {
		for i := range from {
			from[i] = time.Now()
		}
		_ = in.Close()
	}
	redistest.Eventually(b, "the second leads all", func() bool { return led(all) == side })
	took := make([]time.Duration, side)
	for i, e := range all {
		l, _ := e.Leader()
		took[i] = l.Since.Sub(from[i])
	}
	_ = first.Wait()
	if err := g.Stop(); err != nil {
		b.Fatal(err)
	}
	return took
}

// expiries returns when the leader keys expire.
func expiries(b *testing.B, client *redis.Client) []time.Time {
	b.Helper()
	at := make([]time.Time, side)
	ttls := make([]*redis.DurationCmd, side)
	if _, err := client.Pipelined(b.Context(), func(p redis.Pipeliner) error {
		for i := range ttls {
			ttls[i] = p.PTTL(b.Context(), fmt.Sprintf("leader:%d", i))
		}
		return nil
	}); err != nil {
		b.Fatal(err)
	}
	for i := range at {
		at[i] = time.Now().Add(ttls[i].Val())
	}
	return at
}

func leaderKeys(client *redis.Client, id string) (n int) {
	keys := make([]string, side)
	for i := range keys {
		keys[i] = fmt.Sprintf("leader:%d", i)
	}
	values, _ := client.MGet(context.Background(), keys...).Result()
	for _, v := range values {
		if v == id {
			n++
		}
	}
	return n
}

// BenchmarkQuiet counts the commands of a quiet election with 10 members at the default settings, pings of the subscriptions included.
func BenchmarkQuiet(b *testing.B) {
	server, client := elected(b)
	var members []*member
	for i := range 10 {
		members = append(members, join(b, client, Config{InstanceID: fmt.Sprint(i)}))
	}
	redistest.Eventually(b, "everybody knows", func() bool {
		for _, m := range members {
			if l, ok := m.Leader(); !ok || l.Fence == 0 {
				return false
			}
		}
		return true
	})
	for b.Loop() {
		before, pings, start := calls(b, server), executed(b, server, "ping"), time.Now()
		after(60 * time.Second)
		took := time.Since(start).Seconds()
		b.ReportMetric(float64(calls(b, server)-before)/took, "commands/s")
		b.ReportMetric(float64(executed(b, server, "ping")-pings)/took, "pings/s")
	}
	b.ReportMetric(0, "ns/op")
}
