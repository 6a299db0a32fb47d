package sentinel

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/internal/redistest"
)

// A store that asks the sentinels every ten seconds hears of a switch from their messages.
func TestSwitchIsHeardAtOnce(t *testing.T) {
	r := redistest.StartReplicated(t)
	options := r.FailoverOptions()
	options.ClientName = "ours"
	client := redis.NewFailoverClient(options)
	t.Cleanup(func() { _ = client.Close() })
	store, err := redisstore.New(client, redisstore.Options{Quarantine: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	if err := store.Bootstrap(t.Context()); err != nil {
		t.Fatal(err)
	}
	old := r.Master()
	connections := func() int { return strings.Count(fmt.Sprint(old.Do("CLIENT", "LIST")), "name=ours ") }
	wait(2 * time.Second) // each sentinel has said once who the master is
	before := connections()
	r.Failover()
	begin := time.Now()
	for connections() > 0 {
		if time.Since(begin) > 5*time.Second {
			t.Fatalf("5 s after the switch %d of %d connections lead to the old master", connections(), before)
		}
		wait(5 * time.Millisecond)
	}
	t.Logf("%d connections were closed %v after the first sentinel announced the switch", before,
		time.Since(begin).Round(time.Millisecond))
}
