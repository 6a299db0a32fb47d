package lease

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// An epoch is text that the server chose: it may have the password in it, which is shown in no event, entry of the log or health.
func TestEpochsAreShownAsTheStoreShowsThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeRedis()
		g := newRig(t, r, "a", true, nil)
		k := g.keeperOf()
		forgot := 0
		shown := func(text string) {
			if strings.Contains(text, "run ") {
				t.Errorf("an epoch is shown as it is: %s", text)
			}
		}
		defer k.Subscribe(func(e Event) {
			shown(e.Reason)
			if strings.HasPrefix(e.Reason, "redis forgot: … ") {
				forgot++
			}
		})()
		if _, err := k.TryAcquire(t.Context(), "job"); err != nil {
			t.Fatal(err)
		}
		r.forget(time.Minute)
		pass(10 * time.Second)
		shown(k.Health().String())
		if forgot == 0 {
			t.Error("no event tells of another epoch")
		}
		for _, e := range g.log.All() {
			for _, v := range e.ContextMap() {
				if text, is := v.(string); is {
					shown(text)
				}
			}
		}
	})
}
