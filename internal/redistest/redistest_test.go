package redistest_test

import (
	"context"
	"crypto/x509"
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/leasestorm/leasestorm/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRestart(t *testing.T) {
	s := redistest.Start(t, redistest.AppendOnly())
	s.Do("SET", "k", "v")
	addr := s.Addr()
	s.Restart(false)
	if got := s.Do("GET", "k"); got != "v" {
		t.Fatalf("after a restart with its data GET k = %v, want v", got)
	}
	s.Restart(true)
	if got := s.Do("GET", "k"); got != nil {
		t.Fatalf("after an empty restart GET k = %v, want nothing", got)
	}
	if s.Addr() != addr {
		t.Fatalf("address changed from %s to %s", addr, s.Addr())
	}
}

func TestCluster(t *testing.T) {
	s := redistest.Start(t, redistest.Cluster())
	if err := s.ClusterClient().Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
}

func TestRestartLoading(t *testing.T) {
	s := redistest.Start(t)
	c := s.Client()
	for i := range 200 {
		c.Set(t.Context(), "k"+strings.Repeat("x", i), strings.Repeat("v", 100), 0)
	}
	s.RestartLoading(10 * time.Millisecond)
	if err := s.Client().Get(t.Context(), "k").Err(); err == nil || !strings.HasPrefix(err.Error(), "LOADING") {
		t.Fatalf("GET while loading: %v, want LOADING", err)
	}
}

func TestFreeze(t *testing.T) {
	s := redistest.Start(t)
	s.Freeze()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := s.Client().Ping(ctx).Err(); err == nil {
		t.Fatal("a frozen server answered")
	}
	s.Thaw()
	s.Do("PING")
}

// A client that trusts a TLS server's authority can connect as long as the certificate is valid.
func TestTLS(t *testing.T) {
	s := redistest.Start(t, redistest.TLS())
	if err := s.Client().Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	s.Certify(time.Now().Add(-time.Hour))
	var invalid x509.CertificateInvalidError
	if err := s.Client().Ping(t.Context()).Err(); !errors.As(err, &invalid) || invalid.Reason != x509.Expired {
		t.Errorf("with an expired certificate: %v", err)
	}
	s.Certify(time.Now().Add(time.Hour))
	if err := s.Client().Ping(t.Context()).Err(); err != nil {
		t.Error(err)
	}
}
