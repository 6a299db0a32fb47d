package leasetest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/leasestorm/leasestorm/lease"
)

const good = session

func must(t *testing.T, err error, then ...func() error) {
	t.Helper()
	for _, f := range then {
		if err == nil {
			err = f()
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestCallbackThatNeverReturns: a Stop ends all the same and names it, and Health says that it is not known any more which sessions there are.
func TestCallbackThatNeverReturns(t *testing.T) {
	for name, cfg := range map[string]func(never <-chan struct{}) lease.Config{
		"Config.Sessions": func(never <-chan struct{}) lease.Config {
			return lease.Config{Sessions: func(context.Context) ([]string, error) { <-never; return nil, nil }}
		},
		"Config.Notify": func(never <-chan struct{}) lease.Config {
			return lease.Config{Notify: func(lease.Event) { <-never }, Sessions: func(context.Context) ([]string, error) { return []string{good}, nil }}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, never := bootstrapped(t), make(chan struct{})
				c := cfg(never)
				c.InstanceID, c.Logger = "a", zap.NewNop()
				m, err := lease.New(r.Client(), c)
				must(t, err, func() error { return m.Start(t.Context()) })
				pass(lease.TTLDefault)
				h := m.Health()
				if name == "Config.Sessions" && (h.State != lease.HealthSessionsRefused || !strings.Contains(h.Reason, "has not returned")) {
					t.Errorf("Health: %v", h)
				}
				began := time.Now()
				err = m.Stop()
				if took := time.Since(began); took > lease.RenewIntervalDefault+2*time.Second || !errors.Is(err, lease.ErrStuck) ||
					!strings.Contains(err.Error(), name) {
					t.Errorf("stopped after %v: %v", took, err)
				}
				close(never)
			})
		})
	}
}
