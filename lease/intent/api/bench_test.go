package api

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/latency"
	"github.com/leasestorm/leasestorm/internal/redistest"
	"github.com/leasestorm/leasestorm/lease/intent"
	"github.com/leasestorm/leasestorm/lease/intent/store"
)

// acceptCallers is the number of concurrent clients, and of concurrent callers of the bare script.
const acceptCallers = 64

// Quotas that no client reaches. The API still counts the huge ones, so their cost is measured too.
var (
	noQuotas   = Quotas{StartRate: -1, Backlog: -1}
	hugeQuotas = Quotas{StartRate: 1e8, Backlog: 1e9}
)

// acceptRig is one Redis, one API on loopback, and a connection to each for every caller.
type acceptRig struct {
	*testing.B
	redis   *redis.Client
	script  *redis.Script
	senders []*sender
	next    atomic.Int64 // each start has its own service
}

func newAcceptRig(b *testing.B) *acceptRig {
	server := redistest.Start(b)
	r := &acceptRig{B: b}
	r.redis = redis.NewClient(&redis.Options{Addr: server.Addr(), PoolSize: acceptCallers})
	b.Cleanup(func() { r.redis.Close() })
	st, err := store.New(r.redis, store.Options{Batches: 4}) // as cmd/node has it
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { st.Close() })
	var text bytes.Buffer
	for _, name := range []string{"common", "put"} {
		part, err := os.ReadFile("../store/lua/" + name + ".lua")
		if err != nil {
			b.Fatal(err)
		}
		text.Write(part)
	}
	r.script = redis.NewScript(text.String())
	h, err := NewHandler(st, Config{Tokens: []Token{NewToken("w", writer, intent.ScopeWrite)}, Quotas: hugeQuotas})
	if err != nil {
		b.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(h)
	srv.Start()
	b.Cleanup(srv.Close)
	for range acceptCallers {
		r.senders = append(r.senders, newSender(b, srv.Listener.Addr().String()))
	}
	return r
}

// sender is a client that costs as little as a caller of the script: one connection, and a request in which only the service's number
// changes.
type sender struct {
	conn    net.Conn
	answers *bufio.Reader
	request []byte
	number  []byte // within request
}

func newSender(b *testing.B, addr string) *sender {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close() })
	const number = "000000000000"
	body := startBody("s"+number, "p")
	s := &sender{conn: conn, answers: bufio.NewReader(conn), request: fmt.Appendf(nil, "POST /intents HTTP/1.1\r\nHost: %s\r\n"+
		"Authorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", addr, writer, len(body), body)}
	at := bytes.Index(s.request, []byte(number))
	s.number = s.request[at : at+len(number)]
	return s
}

var lengthHeader = []byte("Content-Length: ")

// start sends one start and reads its answer to the end.
func (s *sender) start(n int64) error {
	for i := len(s.number) - 1; i >= 0; i-- {
		s.number[i] = byte('0' + n%10)
		n /= 10
	}
	if _, err := s.conn.Write(s.request); err != nil {
		return err
	}
	length := -1
	for first := true; ; first = false {
		line, err := s.answers.ReadSlice('\n')
		if err != nil {
			return err
		}
		if first && !bytes.HasPrefix(line, []byte("HTTP/1.1 202 ")) {
			return fmt.Errorf("not accepted: %q", line)
		}
		if line = bytes.TrimSpace(line); len(line) == 0 {
			break
		}
		if rest, ok := bytes.CutPrefix(line, lengthHeader); ok {
			if length, err = strconv.Atoi(string(rest)); err != nil {
				return err
			}
		}
	}
	_, err := s.answers.Discard(length)
	return err
}

// raw runs only the script that accepts a start.
func (r *acceptRig) raw(int) error {
	s, err := intent.Request{Resource: fmt.Sprint("s", r.next.Add(1)), Profile: "p"}.Canonical(intent.Names{})
	if err != nil {
		return err
	}
	return r.script.EvalSha(r.Context(), r.redis, []string{"intent:bus"}, "", "", "intent:", 3_600_000, uuid.Must(uuid.NewV7()).String(),
		s.Resource, s.Profile, s.At, s.Key(intent.Names{}), 86_400_000).Err()
}

func (r *acceptRig) http(caller int) error { return r.senders[caller].start(r.next.Add(1)) }

// perSecond returns the rate of n calls, shared by all callers, on an empty Redis.
func (r *acceptRig) perSecond(n int64, call func(caller int) error) float64 {
	r.Helper()
	r.empty()
	var left atomic.Int64
	left.Store(n)
	start := time.Now()
	r.callers(func(caller int) error {
		for left.Add(-1) >= 0 {
			if err := call(caller); err != nil {
				return err
			}
		}
		return nil
	})
	return float64(n) / time.Since(start).Seconds()
}

func (r *acceptRig) empty() {
	r.Helper()
	if err := r.redis.FlushAll(r.Context()).Err(); err != nil {
		r.Fatal(err)
	}
	if err := r.script.Load(r.Context(), r.redis).Err(); err != nil {
		r.Fatal(err)
	}
}

func (r *acceptRig) callers(f func(caller int) error) {
	var wg sync.WaitGroup
	for caller := range acceptCallers {
		wg.Go(func() {
			if err := f(caller); err != nil {
				r.Error(err)
			}
		})
	}
	wg.Wait()
}

// BenchmarkAccept compares the rate of accepted starts over HTTP on loopback, each a new session, with the rate of the bare script. Both
// have as many callers, on the same Redis and in the same process. They take turns, and the best round of each counts.
func BenchmarkAccept(b *testing.B) {
	r := newAcceptRig(b)
	const rounds, each = 40, 4_000
	var raw, http, ratio []float64
	var own, redis float64 // CPU over HTTP
	for b.Loop() {
		for range rounds {
			raw = append(raw, r.perSecond(each, r.raw))
			ownBefore, redisBefore := ownCPU(b), r.redisCPU()
			http = append(http, r.perSecond(each, r.http))
			own, redis = own+ownCPU(b)-ownBefore, redis+r.redisCPU()-redisBefore
			ratio = append(ratio, http[len(http)-1]/raw[len(raw)-1])
		}
	}
	slices.Sort(ratio)
	b.ReportMetric(ratio[len(ratio)/2], "x-script-p50")
	b.ReportMetric(own*1e6/float64(each*len(http)), "µs-cpu")
	b.ReportMetric(redis*1e6/float64(each*len(http)), "µs-redis-cpu")
	b.ReportMetric(slices.Max(raw), "script/s")
	b.ReportMetric(slices.Max(http), "accepted/s")
	b.ReportMetric(slices.Max(http)/slices.Max(raw), "x-script")
	b.ReportMetric(0, "ns/op")
}

// ownCPU returns the CPU seconds of this process: the API and its clients.
func ownCPU(b *testing.B) float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

// redisCPU returns the CPU seconds of Redis.
func (r *acceptRig) redisCPU() (seconds float64) {
	r.Helper()
	info := r.redis.InfoMap(r.Context(), "cpu")
	for _, name := range []string{"used_cpu_sys", "used_cpu_user"} {
		v, err := strconv.ParseFloat(info.Item("CPU", name), 64)
		if err != nil {
			r.Fatal(err)
		}
		seconds += v
	}
	return seconds
}

// BenchmarkAcceptHalf sends starts at half of the rate that 64 callers reach. Each start has its own scheduled time, even if earlier
// answers are late. The latency counts from that time to the end of the answer.
func BenchmarkAcceptHalf(b *testing.B) {
	r := newAcceptRig(b)
	const each = 10_000 / acceptCallers
	var period time.Duration // between two starts of one caller
	latency.Report(b, func(int) []time.Duration {
		// Measure the current rate, because other work may share the machine.
		full := r.perSecond(10_000, r.http)
		period = time.Duration(float64(time.Second) * 2 / full * acceptCallers)
		r.empty()
		took := make([][]time.Duration, acceptCallers)
		began := time.Now()
		r.callers(func(caller int) error {
			timer := time.NewTimer(0)
			defer timer.Stop()
			<-timer.C
			due := began.Add(period * time.Duration(caller) / acceptCallers)
			for range each {
				if early := time.Until(due); early > 0 {
					timer.Reset(early)
					<-timer.C
				}
				if err := r.http(caller); err != nil {
					return err
				}
				took[caller] = append(took[caller], time.Since(due))
				due = due.Add(period)
			}
			return nil
		})
		return slices.Concat(took...)
	})
	b.ReportMetric(acceptCallers/period.Seconds(), "starts/s")
}

// BenchmarkStartMemory accepts 10,000 starts without a worker, and reports Redis' memory per start.
func BenchmarkStartMemory(b *testing.B) {
	r := newAcceptRig(b)
	used := func() (n int) {
		for line := range strings.SplitSeq(r.redis.Info(b.Context(), "memory").Val(), "\r\n") {
			if text, ok := strings.CutPrefix(line, "used_memory:"); ok {
				n, _ = strconv.Atoi(text)
			}
		}
		return n
	}
	const starts = 10_000
	for b.Loop() {
		r.empty()
		before := used()
		for range starts {
			if err := r.http(0); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(used()-before)/starts, "B/start")
	}
}
