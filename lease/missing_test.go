package lease

import (
	"errors"
	"strings"
	"testing"

	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/internal/redistest"
)

// Start refuses a Redis without a necessary command, and names the command. INFO is not necessary.
func TestMissingCommandIsNamedAtStart(t *testing.T) {
	for _, command := range []string{"EVAL", "EVALSHA", "SUBSCRIBE", "SCAN", "INFO"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			client := redistest.Start(t, redistest.Args("--rename-command", command, "")).Client()
			m, err := NewManager(client, ManagerConfig{Config: quick("a")})
			if err != nil {
				t.Fatal(err)
			}
			err = m.Start(t.Context())
			switch {
			case command == "INFO":
				if err != nil {
					t.Errorf("without INFO: %v", err)
				}
				redistest.Eventually(t, "leases are granted", func() bool {
					ok, _ := m.TryAcquire(t.Context(), session)
					return ok && m.Health().OK()
				})
			case !errors.Is(err, redisstore.ErrDenied) || !strings.Contains(err.Error(), "no command "+command+":"):
				t.Errorf("Start: %v", err)
			}
			if err := m.Stop(); err != nil {
				t.Error(err)
			}
		})
	}
}
