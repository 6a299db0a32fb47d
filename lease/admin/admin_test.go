package admin_test

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/lease"
	"github.com/leasestorm/leasestorm/lease/admin"
)

func TestInvalidSettings(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}) // never asked
	t.Cleanup(func() { _ = client.Close() })
	if err := admin.Bootstrap(t.Context(), client, lease.Config{TTL: -1}); !errors.Is(err, lease.ErrInvalidConfig) {
		t.Errorf("Bootstrap with a negative TTL: %v", err)
	}
	for _, length := range []time.Duration{0, lease.TTLMin - 1, lease.TTLMax + 1} {
		if _, err := admin.SetQuarantine(t.Context(), client, lease.Config{}, length); !errors.Is(err, lease.ErrInvalidConfig) {
			t.Errorf("a quarantine of %v: %v", length, err)
		}
	}
}
