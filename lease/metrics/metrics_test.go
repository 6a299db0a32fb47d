package metrics

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"go.uber.org/zap"

	"github.com/leasestorm/leasestorm/internal/inner"
	"github.com/leasestorm/leasestorm/internal/keepertest"
	"github.com/leasestorm/leasestorm/internal/redistest"
	"github.com/leasestorm/leasestorm/lease"
	"github.com/leasestorm/leasestorm/lease/admin"
	"github.com/leasestorm/leasestorm/lease/election"
	"github.com/leasestorm/leasestorm/lease/poll"
)

// series returns the values in the registry by name and labels; of a histogram, its number of observations.
func series(t *testing.T, r *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			all[strings.TrimPrefix(f.GetName(), "leasestorm_")+"{"+strings.Join(labels, ",")+"}"] =
				m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return all
}

// conventions compares names and units with Prometheus' conventions.
func conventions(t *testing.T, r *prometheus.Registry) {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if problems, err := promlint.NewWithMetricFamilies(families).Lint(); err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
}

// await waits until a series has a value.
func await(t *testing.T, r *prometheus.Registry, what string, is func(value float64) bool) {
	t.Helper()
	tick, late := time.NewTicker(5*time.Millisecond), time.After(20*time.Second)
	defer tick.Stop()
	for !is(series(t, r)[what]) {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("%s is %v in the end, among %v", what, series(t, r)[what], series(t, r))
		}
	}
}

func exactly(n float64) func(float64) bool { return func(v float64) bool { return v == n } }
func atLeast(n float64) func(float64) bool { return func(v float64) bool { return v >= n } }

func keeper(t *testing.T, server *redistest.Server) (*lease.Keeper, *prometheus.Registry) {
	t.Helper()
	k := keepertest.New(t, server, lease.Config{TTL: time.Second, RenewInterval: 50 * time.Millisecond, Logger: zap.NewNop()})
	r := prometheus.NewRegistry()
	if _, err := Watch(r, k); err != nil {
		t.Fatal(err)
	}
	if err := k.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.Stop() })
	return k, r
}

// TestWhatHappensIsCounted: on a real Redis, each end of a term counts under its cause.
func TestWhatHappensIsCounted(t *testing.T) {
	server := redistest.Start(t)
	k, r := keeper(t, server)
	var holds []*lease.Lease
	for i := range 3 {
		h, err := k.TryAcquire(t.Context(), fmt.Sprint("thing-", i))
		if err != nil {
			t.Fatal(err)
		}
		holds = append(holds, h)
	}
	await(t, r, "leases_held{}", exactly(3))
	await(t, r, "lease_acquisitions_total{result=acquired}", exactly(3))
	await(t, r, "lease_renewals_total{result=renewed}", atLeast(3))
	await(t, r, "lease_renewal_seconds{}", atLeast(3))
	await(t, r, "lease_margin_seconds{}", atLeast(3))
	await(t, r, "instance_health{state=ok}", exactly(1))

	if err := holds[0].Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(t, r, "lease_terms_ended_total{cause=requested,end=released}", exactly(1))

	if err := server.Client().Del(t.Context(), "lease:name:thing-1").Err(); err != nil {
		t.Fatal(err)
	}
	await(t, r, "lease_terms_ended_total{cause=gone,end=lost}", exactly(1))
	await(t, r, "leases_held{}", exactly(1))

	other, others := keeper(t, server)
	if _, err := other.TryAcquire(t.Context(), "thing-2"); !errors.Is(err, lease.ErrHeld) {
		t.Fatalf("%v, want that it is held", err)
	}
	await(t, others, "lease_acquisitions_total{result=held}", exactly(1))

	server.Freeze()
	await(t, r, "leases_uncertain{}", exactly(1))
	await(t, r, "lease_renewals_total{result=no answer}", atLeast(1))
	await(t, r, "instance_health{state=silent}", exactly(1))
	await(t, r, "lease_terms_ended_total{cause=expired,end=lost}", exactly(1))
	if v := series(t, r)["lease_uncertain_seconds_total{}"]; v < 0.1 || v > 1 {
		t.Errorf("uncertain for %v s, want more than an attempt's wait is short of the TTL and less than the TTL", v)
	}
	server.Thaw()
	await(t, r, "instance_health{state=ok}", exactly(1))

	conventions(t, r)
	if _, err := Watch(r, k); err == nil {
		t.Error("registered twice without an error")
	}
}

// TestQuarantineIsTold: a series has the rest of the quarantine.
func TestQuarantineIsTold(t *testing.T) {
	k, err := lease.NewKeeper(redistest.Start(t).Client(), lease.Config{TTL: 3 * time.Second, OpTimeout: time.Second, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	r := prometheus.NewRegistry()
	stop, err := Watch(r, k)
	if err != nil {
		t.Fatal(err)
	}
	await(t, r, "instance_health{state=not-started}", exactly(1))
	if err := k.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer k.Stop()
	if _, err := k.TryAcquire(t.Context(), "thing"); !errors.Is(err, lease.ErrQuarantine) {
		t.Fatalf("%v, want a quarantine", err)
	}
	if v := series(t, r); v["instance_blocked_seconds{}"] <= 0 || v["instance_blocked_seconds{}"] > 3 {
		t.Errorf("blocked for %v s, want a part of the quarantine: %v", v["instance_blocked_seconds{}"], v)
	}
	await(t, r, "lease_acquisitions_total{result=quarantine}", exactly(1))
	await(t, r, "instance_blocked_seconds{}", exactly(0))
	stop()
	if all := series(t, r); len(all) != 0 {
		t.Errorf("after it was stopped there is %v", all)
	}
}

// TestMissedEvents: missed events are counted, and a term whose end was missed does not count forever.
func TestMissedEvents(t *testing.T) {
	l := newLeases(&told{})
	r := prometheus.NewRegistry()
	r.MustRegister(l)
	l.count(lease.Event{Kind: lease.EventAcquired, Name: "thing"})
	l.terms["thing"].hold = over{}
	if v := series(t, r); v["leases_uncertain{}"] != 1 {
		t.Fatalf("%v, want one that is not believed in", v)
	}
	l.count(lease.Event{Kind: lease.EventAcquireFailed, Name: "other", Cause: "held", Dropped: 7})
	if v := series(t, r); v["events_dropped_total{}"] != 7 || v["leases_uncertain{}"] != 0 {
		t.Errorf("%v, want seven missed events and no term", v)
	}
}

// over is a term that is no longer trusted.
type over struct{}

func (over) Valid() bool { return false }

// told is a source with invented events.
type told struct {
	f func(lease.Event)
	h lease.Health
}

func (l *told) Health() lease.Health                                 { return l.h }
func (l *told) SubscribeChanges(f func(lease.Event)) (cancel func()) { l.f = f; return func() {} }
func (l *told) Renewals() inner.Renewals                             { return inner.Renewals{} }

// TestTimes: durations follow from the times of the events.
func TestTimes(t *testing.T) {
	at := time.Unix(1_000_000, 0)
	l := newLeases(&told{})
	r := prometheus.NewRegistry()
	r.MustRegister(l)
	tell := func(kind lease.EventKind, ms int) {
		now := at.Add(time.Duration(ms) * time.Millisecond)
		l.count(lease.Event{Kind: kind, Name: "thing", At: now, Until: now.Add(time.Second), Cause: "c"})
	}
	tell(lease.EventAcquired, 0)
	tell(lease.EventUncertain, 400)
	tell(lease.EventUncertain, 500)
	tell(lease.EventRenewed, 600)
	tell(lease.EventYield, 700)
	tell(lease.EventKept, 710)
	tell(lease.EventYield, 800)
	tell(lease.EventUncertain, 900)
	tell(lease.EventReleased, 950)
	l.vacant(lease.Event{At: at, VacantSince: at.Add(-3 * time.Second)})
	l.vacant(lease.Event{At: at, VacantSince: at.Add(-4 * time.Millisecond), GivenBack: true})
	want := map[string]float64{"yield": 0.15, "takeover": 3, "handover": 0.004}
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		name := strings.TrimSuffix(strings.TrimPrefix(f.GetName(), "leasestorm_lease_"), "_seconds")
		if h := f.GetMetric()[0].GetHistogram(); h != nil && name != "renewal" && name != "margin" && (h.GetSampleCount() != 1 || !near(h.GetSampleSum(), want[name])) {
			t.Errorf("%s: %d observations of %v in all, want one of %v", name, h.GetSampleCount(), h.GetSampleSum(), want[name])
		}
	}
	if v := series(t, r)["lease_uncertain_seconds_total{}"]; !near(v, 0.25) {
		t.Errorf("uncertain for %v s, want from 400 to 600 and from 900 to 950 ms", v)
	}
}

func near(a, b float64) bool { return a > b-1e-9 && a < b+1e-9 }

// TestPolls: polls count by their outcome.
func TestPolls(t *testing.T) {
	r := prometheus.NewRegistry()
	var answer error
	counted, err := Poll(r, func(context.Context, poll.Session) error {
		if answer == nil {
			return nil
		}
		if answer.Error() == "panic" {
			panic("here")
		}
		return answer
	})
	if err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancelCause(t.Context())
	cancel(poll.ErrUncertain)
	late, stop := context.WithTimeout(t.Context(), -1)
	defer stop()
	for _, p := range []struct {
		ctx context.Context
		err error
	}{
		{t.Context(), nil}, {t.Context(), errors.New("no")}, {late, errors.New("no")}, {over, errors.New("no")},
		{t.Context(), fmt.Errorf("it says %w", poll.ErrFenced)}, {t.Context(), errors.New("panic")},
	} {
		func() {
			defer func() {
				if r := recover(); (r != nil) != (p.err != nil && p.err.Error() == "panic") {
					t.Errorf("of %v it panicked with %v", p.err, r)
				}
			}()
			answer = p.err
			if err := counted(p.ctx, poll.Session{}); !errors.Is(err, p.err) {
				t.Errorf("%v, want what the function says: %v", err, p.err)
			}
		}()
	}
	got := series(t, r)
	for _, result := range []string{"done", "failed", "timeout", "interrupted", "fenced", "panicked"} {
		if got["polls_total{result="+result+"}"] != 1 {
			t.Errorf("%s: %v, want one", result, got)
		}
	}
	if got["poll_seconds{}"] != 6 {
		t.Errorf("%v polls were timed, want 6", got["poll_seconds{}"])
	}
	if _, err := Poll(r, nil); err == nil {
		t.Error("registered twice without an error")
	}
}

// TestElections: each election of a process has its leader's series.
func TestElections(t *testing.T) {
	server := redistest.Start(t)
	cfg := election.Config{LeaderTTL: 10 * time.Second, Logger: zap.NewNop()}
	if err := admin.Bootstrap(t.Context(), server.Client(), cfg, "b:leader"); err != nil {
		t.Fatal(err)
	}
	g, err := election.NewGroup(server.Client(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Stop()
	r := prometheus.NewRegistry()
	for _, key := range []string{"", "b:leader"} {
		e, err := g.Election(key)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Election(r, e); err != nil {
			t.Fatal(err)
		}
		if err := e.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []string{"election:leader", "b:leader"} {
		await(t, r, "election_leader{election="+key+"}", exactly(1))
		await(t, r, "election_leaderships_total{election="+key+"}", exactly(1))
	}
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
	await(t, r, "election_leader{election=b:leader}", exactly(0))
	await(t, r, "election_leaderships_lost_total{election=b:leader}", exactly(1))
	conventions(t, r)
}

// TestDocumentation: the package's documentation lists exactly the exported series.
func TestDocumentation(t *testing.T) {
	names := documented(t)
	var got []string
	ch := make(chan *prometheus.Desc, 100)
	k, r := &told{}, prometheus.NewRegistry()
	if _, err := Watch(r, k); err != nil {
		t.Fatal(err)
	}
	r.Describe(ch)
	if _, err := Poll(registererOf(ch), nil); err != nil {
		t.Fatal(err)
	}
	member{}.Describe(ch)
	close(ch)
	for d := range ch {
		_, name, _ := strings.Cut(d.String(), `fqName: "`)
		name, _, _ = strings.Cut(name, `"`)
		got = append(got, name)
	}
	slices.Sort(names)
	slices.Sort(got)
	if !slices.Equal(names, got) {
		t.Errorf("documented are %v, there are %v", names, got)
	}
}

// registererOf sends the description of each collector to a channel, and registers none.
type registererOf chan<- *prometheus.Desc

func (r registererOf) Register(c prometheus.Collector) error { c.Describe(r); return nil }
func (r registererOf) MustRegister(...prometheus.Collector)  {}
func (r registererOf) Unregister(prometheus.Collector) bool  { return true }

var listed = regexp.MustCompile(`(?m)^//	(leasestorm_[a-z_]+)`)

// documented returns the names in the package's documentation.
func documented(t *testing.T) (names []string) {
	t.Helper()
	text, err := os.ReadFile("metrics.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range listed.FindAllSubmatch(text, -1) {
		names = append(names, string(m[1]))
	}
	return names
}
