package membership

import (
	"strings"
	"testing"

	core "github.com/leasestorm/leasestorm/internal/core/intent"
	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/lease/intent"
	"github.com/leasestorm/leasestorm/lease/intent/store"
)

// FuzzEntry takes any entry off the bus: it is a dead letter, or one that the API could have put there, and then its leases can
// be asked for and the rules take it into hand.
func FuzzEntry(f *testing.F) {
	const maxTries = 5
	const uuid = "0190a8c2-8f5e-7c2a-9d7e-3b1f6a2c4d5e"
	f.Add("1-1", "start", uuid, "1:0:1:445D:453:1:C00000:0:0:0", "hd", int64(0), 1, "", "", int64(0))
	f.Add("1-1", "start", uuid, "a", "default", int64(1_700_000_000_000), 99, "w-1", "w-2", int64(7))
	f.Add("1-1", "start", strings.ToUpper(uuid), "a", "default", int64(0), 1, "", "", int64(0))
	f.Add("", "stop", "{"+uuid+"}", "a:", "", int64(-1), -1, "session:x", "\x00", int64(-1))
	f.Fuzz(func(t *testing.T, id, kind, session, service, profile string, start int64, tries int, from, owner string, fence int64) {
		e := store.Entry{
			ID: id, Type: kind, Session: session, Start: intent.Start{ServiceRef: service, Profile: profile, StartMs: start},
			Tries: tries, From: from, Owner: owner, Fence: fence,
		}
		if malformed(&e) != "" {
			return
		}
		if again, err := e.Canonical(); err != nil || again != e.Start || kind != "start" || session != strings.ToLower(session) || len(session) != 36 {
			t.Fatalf("%+v is accepted: %v", e, err)
		}
		if _, err := redisstore.LeaseKeys(redisstore.Options{}, store.ServiceLease(service)); err != nil {
			t.Fatalf("%+v is accepted, and no lease can have its name: %v", e, err)
		}
		m := core.New(core.Config{Worker: "w", Slots: []string{"1"}, MaxTries: maxTries, Starting: 1})
		effects := m.Step(core.Event{Kind: core.EvEntry, Now: 1, Entry: core.Entry{
			ID: id, Session: session, Service: service, Tries: tries, From: from, Owner: owner, Fence: fence,
		}})
		if len(effects) != 1 || (effects[0].Kind == core.Acquire) == (tries > maxTries) {
			t.Fatalf("%+v: %+v", e, effects)
		}
	})
}
