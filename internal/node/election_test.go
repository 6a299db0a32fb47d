package node

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/internal/redistest"
	"github.com/leasestorm/leasestorm/lease/admin"
	"github.com/leasestorm/leasestorm/lease/election"
)

func TestNodesElectALeaderThatWrites(t *testing.T) {
	server := redistest.Start(t)
	if err := admin.Bootstrap(t.Context(), server.Client(), election.Config{LeaderTTL: time.Second}); err != nil {
		t.Fatal(err)
	}
	writes := make(chan *http.Request, 1000)
	target := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { writes <- r }))
	defer target.Close()
	env := []string{"LEASESTORM_SYSTEM=election", "LEASESTORM_REDIS_URL=" + server.URL(), "LEASESTORM_TARGET_URL=" + target.URL,
		"LEASESTORM_TTL_MS=1000", "LEASESTORM_RENEW_MS=300", "LEASESTORM_HEARTBEAT_MS=300", "LEASESTORM_ELECTION_MS=500",
		"LEASESTORM_POLL_MS=50", "LEASESTORM_START_DELAY_MS=0"}
	const key = "sovereign:leader"
	a := startChild(t, env) // it may campaign before it reports ready
	changed := a.wait("stateChanged")
	if changed["from"] != "FOLLOWER" || changed["to"] != "CANDIDATE" || changed["session"] != key {
		t.Errorf("%v", changed)
	}
	acquired := a.wait("acquired")
	if acquired["session"] != key || acquired["until"].(float64)-acquired["t"].(float64) > 1e9 {
		t.Errorf("%v", acquired)
	}
	changed = a.wait("stateChanged")
	won := a.wait("leadershipAcquired")
	leading := a.wait("leading")
	if changed["to"] != "LEADER" || won["fence"] != acquired["fence"] || won["t"].(float64) < acquired["t"].(float64) ||
		leading["leader"] != acquired["instance"] || leading["fence"] != acquired["fence"] {
		t.Errorf("%v, %v, %v after %v", changed, won, leading, acquired)
	}
	a.wait("pollStart")
	a.wait("pollEnd")
	if r := <-writes; r.URL.Path != "/poll/"+key || r.Header.Get("X-Instance") != acquired["instance"] ||
		r.Header.Get("X-Fence") == "" {
		t.Errorf("%s %v", r.URL, r.Header)
	}

	b := startChild(t, env)
	b.wait("electionFailed")
	if got := b.wait("leading"); got["leader"] != acquired["instance"] {
		t.Errorf("%v", got)
	}
	a.signal(syscall.SIGTERM)
	a.wait("released")
	a.wait("stateChanged")
	if lost := a.wait("leadershipLost"); lost["fence"] != won["fence"] {
		t.Errorf("%v", lost)
	}
	a.wait("stopped")
	<-a.done
	if a.err != nil {
		t.Errorf("exit: %v\n%s", a.err, a.log.String())
	}
	if got := b.wait("leadershipAcquired"); got["fence"].(float64) <= won["fence"].(float64) {
		t.Errorf("fence %v after %v", got["fence"], won["fence"])
	}
	b.signal(syscall.SIGTERM)
	b.wait("stopped")
	<-b.done
	for _, want := range []string{`"event":"leadershipAcquired"`, `"election":"` + key, `"event":"acquired"`} {
		if !strings.Contains(a.log.String(), want) {
			t.Errorf("the log lacks %s", want)
		}
	}
}
