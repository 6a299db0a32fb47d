package scenarios

import (
	"context"
	"fmt"
	"os/exec"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/leasestorm/leasestorm/internal/redistest" //nolint:depguard // no storm: what the library itself tells
	"github.com/leasestorm/leasestorm/lease"              //nolint:depguard // as above
	"github.com/leasestorm/leasestorm/lease/metrics"      //nolint:depguard // as above
)

// Health, the log and the metrics report the cause that keeps an instance from working.
var _ = Describe("Health says what is true", Label("health"), func() {
	It("while a callback blocks, and afterwards", func(ctx SpecContext) {
		leave := make(chan struct{})
		w := newWatched(redistest.Start(GinkgoTB()).Client(), lease.Config{TTL: time.Second, Notify: func(lease.Event) { <-leave }})
		Expect(w.start(ctx)).To(Succeed())
		Eventually(ctx, w.state).WithTimeout(3 * time.Second).Should(Equal(lease.HealthBlocked))
		Expect(w.manager.Health().Reason).To(ContainSubstring("Config.Notify"))
		Expect(w.metric(lease.HealthBlocked)).To(Equal(1.0))
		Eventually(ctx, w.logged("blocked")).Should(ContainElement(ContainSubstring("Config.Notify")))

		close(leave)
		Eventually(ctx, w.state).WithTimeout(10 * time.Second).Should(Equal(lease.HealthOK))
		Eventually(ctx, w.logged("unblocked")).ShouldNot(BeEmpty())
		Expect(w.logged("blocked")()).To(HaveLen(1))
	})

	It("while no replica acknowledges", func(ctx SpecContext) {
		servers := redistest.StartReplicated(GinkgoTB())
		w := newWatched(servers.Client(), lease.Config{TTL: 3 * time.Second, Replicas: 1})
		Expect(w.start(ctx)).To(Succeed())
		Eventually(ctx, w.manager.OwnedSessions).WithTimeout(20 * time.Second).Should(HaveLen(2))
		Expect(w.state()).To(Equal(lease.HealthOK))
		for _, s := range servers.Servers[1:] {
			s.Kill()
		}
		Eventually(ctx, w.manager.OwnedSessions).WithTimeout(10 * time.Second).Should(BeEmpty())
		Eventually(ctx, w.state).WithTimeout(3 * time.Second).Should(Equal(lease.HealthRefused))
		Consistently(ctx, w.state).WithTimeout(10 * time.Second).Should(Equal(lease.HealthRefused))
		Expect(w.manager.Health().Err).To(MatchError(ContainSubstring("acknowledged")))
		Expect(w.metric(lease.HealthRefused)).To(Equal(1.0))
		Expect(w.logged("lost")()).To(HaveLen(2), "leases lost")
		Expect(len(w.logged("redisSilent")())).To(BeNumerically("<", 3), "Redis answers, late now and then on a busy host")
	})

	It("on a server without EVAL", func(ctx SpecContext) {
		server := redistest.Start(GinkgoTB(), redistest.Args("--rename-command", "EVAL", ""))
		w := newWatched(server.Client(), lease.Config{TTL: time.Second})
		Expect(w.start(ctx)).To(MatchError(ContainSubstring("no command EVAL")))
		Expect(w.state()).NotTo(Equal(lease.HealthOK))
		Expect(w.metric(lease.HealthOK)).To(Equal(0.0))

		leasectl, err := gexec.Build("github.com/leasestorm/leasestorm/cmd/leasectl")
		Expect(err).NotTo(HaveOccurred())
		text, _ := exec.CommandContext(ctx, leasectl, "--redis", server.URL(), "--system", "polling", "check").CombinedOutput()
		Expect(string(text)).To(ContainSubstring("EVAL"))
	})
})

// watched is a manager of two sessions, with its log and metrics.
type watched struct {
	manager  *lease.Manager
	log      *observer.ObservedLogs
	registry *prometheus.Registry
}

func newWatched(client redis.UniversalClient, cfg lease.Config) *watched {
	core, log := observer.New(zap.InfoLevel)
	cfg.Logger = zap.New(core)
	manager, err := lease.NewManager(client, lease.ManagerConfig{Config: cfg, NamedSessions: true,
		Sessions: func(context.Context) ([]string, error) { return []string{"a", "b"}, nil }})
	Expect(err).NotTo(HaveOccurred())
	w := &watched{manager, log, prometheus.NewRegistry()}
	_, err = metrics.Watch(w.registry, manager)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { _ = manager.Stop() })
	return w
}

func (w *watched) start(ctx context.Context) error { return w.manager.Start(ctx) }

func (w *watched) state() string { return w.manager.Health().State }

// metric returns leasestorm_instance_health of a state.
func (w *watched) metric(state string) float64 {
	families, err := w.registry.Gather()
	Expect(err).NotTo(HaveOccurred())
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "leasestorm_instance_health" && m.GetLabel()[0].GetValue() == state {
				return m.GetGauge().GetValue()
			}
		}
	}
	Fail("no metric for " + state)
	return 0
}

// logged returns a function that returns the entries of an event so far, each as text.
func (w *watched) logged(event string) func() []string {
	return func() (all []string) {
		for _, e := range w.log.FilterField(zap.String("event", event)).All() {
			all = append(all, fmt.Sprint(e.Message, e.ContextMap()))
		}
		return all
	}
}
