package real

import (
	"context"
	"testing"
	"time"
)

// A replica that is back out of an old dump goes on in its master's stream from there, has what came after, and keeps it.
func TestReplicaIsBackOutOfADump(t *testing.T) {
	for name, c := range map[string]RedisChoice{"behind Sentinel": {Servers: 3}, "on a cluster": {Servers: 3, Cluster: true}} {
		t.Run(name, func(t *testing.T) {
			p := provisionChoice(t, c).replicated
			master, m := p.members[0], p.members[1]
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			set := func(value string) {
				t.Helper()
				if err := master.client.Load().Set(ctx, clusterTag+"key", value, 0).Err(); err != nil {
					t.Fatal(err)
				}
				if n, err := master.client.Load().Wait(ctx, 2, time.Minute).Result(); n != 2 || err != nil {
					t.Fatalf("acknowledged by %d, %v", n, err)
				}
			}
			attached := func() (full, partial string) {
				f := infoFields(master.client.Load().Info(ctx, "stats").Val())
				return f["sync_full"], f["sync_partial_ok"]
			}
			set("old")
			full, partial := attached()
			if err := m.save(ctx); err != nil {
				t.Fatal(err)
			}
			set("new")
			m.kill()
			if err := m.reload(ctx); err != nil {
				t.Fatal(err)
			}
			p.renew(m.server)
			if err := m.appendAgain(ctx); err != nil {
				t.Fatal(err)
			}
			set("newest")
			if full2, partial2 := attached(); full2 != full || partial2 == partial {
				t.Errorf("the master counts %s full and %s partial synchronizations, before it %s and %s", full2, partial2, full, partial)
			}
			m.kill()
			for _, other := range p.members { // nobody tells it anything
				if other != m {
					other.kill()
				}
			}
			if err := m.start(ctx); err != nil {
				t.Fatal(err)
			}
			p.renew(m.server)
			if p.cluster != nil { // alone, it refuses to be asked
				return
			}
			if text, err := m.client.Load().Get(ctx, clusterTag+"key").Result(); text != "newest" {
				t.Errorf("it keeps %q, %v", text, err)
			}
		})
	}
}
