package metrics

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/leasestorm/leasestorm/internal/callback"
	"github.com/leasestorm/leasestorm/internal/inner"
	"github.com/leasestorm/leasestorm/internal/redistest"
	"github.com/leasestorm/leasestorm/lease"
	"github.com/leasestorm/leasestorm/lease/admin"
	"github.com/leasestorm/leasestorm/lease/election"
	"github.com/leasestorm/leasestorm/lease/poll"
)

const monitoring = "../../docker/monitoring"

// promtool returns the path of Prometheus' tool.
func promtool(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil && os.Getenv("CI") != "true" {
		t.Skip("promtool was not found: Debian's package prometheus has it")
	} else if err != nil {
		t.Fatal(err)
	}
	return path
}

// scrapes are the values that a Prometheus reads from one process each minute. A fault of a second fills as many of them as the test says.
type scrapes struct {
	t     *testing.T
	r     *prometheus.Registry
	seen  []map[string]float64
	quiet int // the last minute in which no alert may fire
}

// ask records n minutes with the current values.
func (s *scrapes) ask(n int) {
	s.t.Helper()
	families, err := s.r.Gather()
	if err != nil {
		s.t.Fatal(err)
	}
	now := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if m.GetHistogram() != nil {
				continue // no alert uses it
			}
			labels := []string{`job="fleet"`, `instance="one"`}
			for _, l := range m.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			now[f.GetName()+"{"+strings.Join(labels, ",")+"}"] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	now[up] = 1
	for range n {
		s.seen = append(s.seen, now)
	}
}

// up is Prometheus' own series of answered scrapes.
const up = `up{job="fleet",instance="one"}`

// unheard records n minutes in which the process does not answer.
func (s *scrapes) unheard(n int) {
	for range n {
		s.seen = append(s.seen, map[string]float64{up: 0})
	}
}

// input returns the values in the form of promtool.
func (s *scrapes) input() (all []map[string]string) {
	names := map[string]bool{}
	for _, now := range s.seen {
		for name := range now {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		var values []string
		for _, now := range s.seen {
			if v, ok := now[name]; ok {
				values = append(values, fmt.Sprint(v))
			} else {
				values = append(values, "_")
			}
		}
		all = append(all, map[string]string{"series": name, "values": strings.Join(values, " ")})
	}
	return all
}

// faults has a fault for each alert, for elections too if a word follows the alert's name. Each first records values without the fault, and
// last those after it.
var faults = map[string]func(t *testing.T, s *scrapes){
	"LeasestormInstanceUnfit": func(t *testing.T, s *scrapes) {
		server := redistest.Start(t)
		_, s.r = keeper(t, server)
		await(t, s.r, "instance_health{state=ok}", exactly(1))
		s.ask(3)
		server.Freeze()
		await(t, s.r, "instance_health{state=silent}", exactly(1))
		s.ask(3)
		server.Thaw()
	},
	"LeasestormInstanceUnfit elected": func(t *testing.T, s *scrapes) {
		server := redistest.Start(t)
		elected(t, server, s, "one")
		await(t, s.r, "election_health{election=election:leader,state=ok}", exactly(1))
		s.ask(3)
		server.Freeze()
		await(t, s.r, "election_health{election=election:leader,state=silent}", exactly(1))
		s.ask(3)
		server.Thaw()
	},
	"LeasestormRedisLostData elected": func(t *testing.T, s *scrapes) {
		server := redistest.Start(t)
		elected(t, server, s, "one")
		await(t, s.r, "election_health{election=election:leader,state=ok}", exactly(1))
		s.ask(3)
		server.Kill()
		server.Restart(true)
		await(t, s.r, "election_health{election=election:leader,state=quarantine}", exactly(1))
		s.ask(1)
	},
	"LeasestormInstanceUnheard": func(t *testing.T, s *scrapes) { // it hangs, or its process has ended
		_, s.r = keeper(t, redistest.Start(t))
		await(t, s.r, "instance_health{state=ok}", exactly(1))
		s.ask(3)
		s.unheard(10) // longer than Prometheus keeps the last values
	},
	"LeasestormRedisLostData": func(t *testing.T, s *scrapes) {
		server := redistest.Start(t)
		_, s.r = keeper(t, server)
		await(t, s.r, "instance_health{state=ok}", exactly(1))
		s.ask(3)
		server.Kill()
		server.Restart(true)
		await(t, s.r, "instance_health{state=quarantine}", exactly(1))
		s.ask(1)
	},
	"LeasestormLeasesExpire": func(t *testing.T, s *scrapes) {
		server := redistest.Start(t)
		k, r := keeper(t, server)
		s.r = r
		hold(t, k)
		s.ask(3)
		server.Freeze()
		await(t, r, "lease_terms_ended_total{cause=expired,end=lost}", exactly(1))
		server.Thaw()
		s.ask(3)
	},
	"LeasestormLeasesTaken": func(t *testing.T, s *scrapes) {
		server := redistest.Start(t)
		k, r := keeper(t, server)
		s.r = r
		hold(t, k)
		s.ask(3)
		server.Client().Set(t.Context(), "lease:name:thing", "a stranger", time.Minute)
		await(t, r, "lease_terms_ended_total{cause=taken,end=lost}", exactly(1))
		s.ask(3)
	},
	"LeasestormRenewalsFail": func(t *testing.T, s *scrapes) {
		server := redistest.Start(t)
		k, r := keeper(t, server)
		s.r = r
		hold(t, k)
		await(t, r, "lease_renewals_total{result=renewed}", atLeast(1))
		s.ask(3)
		server.ReadOnly()
		await(t, r, "lease_renewals_total{result=failed}", atLeast(1))
		s.ask(3)
	},
	"LeasestormSessionsGone": func(t *testing.T, s *scrapes) {
		read := shared(t, s)
		s.ask(3)
		for minute := range 3 { // a restarted fleet that cannot read the sessions
			s.ask(1)
			now := s.seen[len(s.seen)-1]
			now[`leasestorm_sessions{job="fleet",instance="one"}`] = 0
			now[`leasestorm_sessions_unread_seconds{job="fleet",instance="one"}`] = float64(60 * (minute + 1))
		}
		s.quiet = len(s.seen) - 1
		read.Store(&reading{})
		await(t, s.r, "sessions{}", exactly(0))
		s.ask(3)
	},
	"LeasestormSessionsUnread": func(t *testing.T, s *scrapes) {
		read := shared(t, s)
		s.ask(3)
		read.Store(&reading{err: errors.New("the database is away")})
		await(t, s.r, "sessions_unread_seconds{}", atLeast(0.1))
		for minute := range 3 { // while it runs
			s.ask(1)
			s.seen[len(s.seen)-1][`leasestorm_sessions_unread_seconds{job="fleet",instance="one"}`] += float64(60 * (minute + 1))
		}
	},
	"LeasestormPollsTimeOut": func(t *testing.T, s *scrapes) {
		polled(t, s, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
	},
	"LeasestormPollsFenced": func(t *testing.T, s *scrapes) {
		polled(t, s, func(context.Context) error { return poll.ErrFenced })
	},
	"LeasestormPollsFail": func(t *testing.T, s *scrapes) {
		polled(t, s, func(context.Context) error { return errors.ErrUnsupported })
	},
	"LeasestormPollsPanic": func(t *testing.T, s *scrapes) { polled(t, s, func(context.Context) error { panic("a bug") }) },
	"LeasestormPollsStuck": func(t *testing.T, s *scrapes) {
		made(s, func(l *leases, _ *told) { l.count(lease.Event{Kind: lease.EventLost, Name: "one", Cause: "stuck"}) })
	},
	"LeasestormSessionsSkipped": func(t *testing.T, s *scrapes) {
		read := shared(t, s)
		s.ask(3)
		read.Store(&reading{ids: []string{"one"}, err: &inner.Skipped{Count: 1}})
		await(t, s.r, "sessions_skipped{}", exactly(1))
		s.ask(3)
	},
	"LeasestormReplicasSurplus":   func(t *testing.T, s *scrapes) { made(s, func(_ *leases, by *told) { by.h.Surplus = true }) },
	"LeasestormInstanceLimited":   func(t *testing.T, s *scrapes) { made(s, func(_ *leases, by *told) { by.h.Deaf = true }) },
	"LeasestormInstanceLimited 2": func(t *testing.T, s *scrapes) { made(s, func(_ *leases, by *told) { by.h.Withdrawn = true }) },
	"LeasestormNoLeader": func(t *testing.T, s *scrapes) {
		server := redistest.Start(t)
		elected(t, server, s, "one")
		await(t, s.r, "election_leader{election=election:leader}", exactly(1))
		s.ask(3)
		server.Freeze()
		await(t, s.r, "election_leader{election=election:leader}", exactly(0))
		s.ask(3)
		server.Thaw()
	},
	"LeasestormDuplicateMember": func(t *testing.T, s *scrapes) {
		server := redistest.Start(t)
		first := &scrapes{t: t}
		elected(t, server, first, "same")
		await(t, first.r, "election_leader{election=election:leader}", exactly(1))
		s.unheard(3) // it notices at its start, before the first scrape
		elected(t, server, s, "same")
		await(t, s.r, "election_duplicates_total{election=election:leader}", atLeast(1))
		s.ask(3)
	},
	"LeasestormEventsMissed": func(t *testing.T, s *scrapes) { // as for a listener that is 65,536 events behind
		made(s, func(l *leases, _ *told) { l.count(lease.Event{Kind: lease.EventAcquireFailed, Dropped: 1}) })
	},
}

// made records an invented fault.
func made(s *scrapes, fault func(l *leases, by *told)) {
	by := &told{}
	l := newLeases(by)
	s.r = prometheus.NewRegistry()
	s.r.MustRegister(l)
	s.ask(3)
	fault(l, by)
	s.ask(3)
}

func hold(t *testing.T, k *lease.Keeper) {
	t.Helper()
	if _, err := k.Acquire(t.Context(), "thing"); err != nil {
		t.Fatal(err)
	}
}

// reading is what Config.Sessions returns.
type reading struct {
	ids []string
	err error
}

// shared shares one session until the test changes the reading.
func shared(t *testing.T, s *scrapes) *atomic.Pointer[reading] {
	t.Helper()
	read := &atomic.Pointer[reading]{}
	read.Store(&reading{ids: []string{"one"}})
	m, err := lease.NewManager(redistest.Start(t).Client(), lease.ManagerConfig{NamedSessions: true,
		Config: lease.Config{TTL: time.Second, DiscoveryInterval: 50 * time.Millisecond, Logger: zap.NewNop()}, Sessions: func(context.Context) ([]string, error) { now := read.Load(); return now.ids, now.err }})
	if err != nil {
		t.Fatal(err)
	}
	s.r = prometheus.NewRegistry()
	if _, err := Watch(s.r, m); err != nil {
		t.Fatal(err)
	}
	if err := m.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Stop() })
	await(t, s.r, "sessions{}", exactly(1))
	return read
}

// polled polls a session with a function that fails.
func polled(t *testing.T, s *scrapes, fails func(context.Context) error) {
	t.Helper()
	s.r = prometheus.NewRegistry()
	f, err := Poll(s.r, func(ctx context.Context, _ poll.Session) error { return fails(ctx) })
	if err != nil {
		t.Fatal(err)
	}
	s.ask(3)
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		if err := callback.Call("Poll", func() error { return f(ctx, poll.Session{}) }); err == nil {
			t.Fatal("the poll did not fail")
		}
		cancel()
		s.ask(1)
	}
}

func elected(t *testing.T, server *redistest.Server, s *scrapes, instance string) {
	t.Helper()
	cfg := election.Config{InstanceID: instance, LeaderTTL: time.Second, Logger: zap.NewNop()}
	_ = admin.Bootstrap(t.Context(), server.Client(), cfg) // the second call is refused, because of the first one's leader
	e, err := election.New(server.Client(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	s.r = prometheus.NewRegistry()
	if _, err := Election(s.r, e); err != nil {
		t.Fatal(err)
	}
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Stop() })
}

type rule struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	Annotations map[string]string `yaml:"annotations"`
}

func rules(t *testing.T) (all []rule) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(monitoring, "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []rule `yaml:"rules"`
		} `yaml:"groups"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

// TestAlerts: each alert stays silent without its fault and fires with it, according to Prometheus' own evaluator.
func TestAlerts(t *testing.T) {
	tool := promtool(t)
	file, err := filepath.Abs(filepath.Join(monitoring, "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	alerts := map[string]bool{}
	for _, a := range rules(t) {
		if alerts[a.Alert] = true; faults[a.Alert] == nil {
			t.Errorf("no fault makes %s fire", a.Alert)
		}
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			alert, _, _ := strings.Cut(name, " ")
			if !alerts[alert] {
				t.Fatal("there is no such alert")
			}
			s := &scrapes{t: t, quiet: 2}
			fault(t, s)
			fires := func(minute int, samples []map[string]any) map[string]any {
				return map[string]any{"eval_time": fmt.Sprint(minute, "m"), "exp_samples": samples,
					"expr": fmt.Sprintf(`count(ALERTS{alertname=%q, alertstate="firing"})`, alert)}
			}
			text, err := yaml.Marshal(map[string]any{
				"rule_files": []string{file}, "evaluation_interval": "1m",
				"tests": []any{map[string]any{"interval": "1m", "input_series": s.input(), "promql_expr_test": []any{
					fires(s.quiet, nil), fires(len(s.seen)-1, []map[string]any{{"labels": "{}", "value": 1}}),
				}}},
			})
			if err != nil {
				t.Fatal(err)
			}
			story := filepath.Join(t.TempDir(), "story.yaml")
			if err := os.WriteFile(story, text, 0o600); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.CommandContext(t.Context(), tool, "test", "rules", story).CombinedOutput(); err != nil {
				t.Errorf("%v: %s\n%s", err, out, text)
			}
		})
	}
}

var metricNames = regexp.MustCompile(`leasestorm_[a-z_]+`)

// TestWhatIsAskedForIsThere: alerts and dashboard use only exported series, in valid PromQL, and each alert has its section in the runbook.
func TestWhatIsAskedForIsThere(t *testing.T) {
	told := map[string]bool{}
	for _, name := range documented(t) {
		told[name] = true
	}
	runbook, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	dashboard, err := os.ReadFile(filepath.Join(monitoring, "dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range rules(t) {
		if _, anchor, _ := strings.Cut(a.Annotations["runbook"], "#"); anchor != strings.ToLower(a.Alert) ||
			!strings.Contains(string(runbook), "### "+a.Alert+"\n") {
			t.Errorf("%s has no paragraph in docs/operations.md, or %q does not lead to it", a.Alert, a.Annotations["runbook"])
		}
		if !asks(told, a.Expr) {
			t.Errorf("%s asks for what is not told: %s", a.Alert, a.Expr)
		}
	}
	panels := queries(t, dashboard)
	if len(panels) == 0 {
		t.Error("the dashboard asks for nothing")
	}
	rules := []any{}
	for _, q := range panels {
		if !asks(told, q) {
			t.Errorf("the dashboard asks for what is not told: %s", q)
		}
		rules = append(rules, map[string]string{"record": "panel", "expr": strings.ReplaceAll(q, "$__rate_interval", "5m")})
	}
	text, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": rules}}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "dashboard.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, checked := range []string{file, filepath.Join(monitoring, "alerts.yaml")} {
		out, err := exec.CommandContext(t.Context(), promtool(t), "check", "rules", "--lint=none", checked).CombinedOutput()
		if err != nil {
			t.Errorf("%v: %s", err, out)
		}
	}
}

func asks(told map[string]bool, expr string) bool {
	names := metricNames.FindAllString(expr, -1)
	return len(names) > 0 && !slices.ContainsFunc(names, func(n string) bool { return !told[strings.TrimSuffix(n, "_bucket")] })
}

// queries returns the expressions of a dashboard's panels.
func queries(t *testing.T, dashboard []byte) (all []string) {
	t.Helper()
	var d struct {
		Panels []struct {
			Targets []struct {
				Expr string `json:"expr"`
			} `json:"targets"`
		} `json:"panels"`
	}
	if err := json.Unmarshal(dashboard, &d); err != nil {
		t.Fatal(err)
	}
	for _, p := range d.Panels {
		if len(p.Targets) == 0 {
			t.Error("a panel asks for nothing")
		}
		for _, target := range p.Targets {
			all = append(all, target.Expr)
		}
	}
	return all
}
