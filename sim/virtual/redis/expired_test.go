package redis

import (
	"fmt"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/sim/fault"
)

// What an op finds to be over goes, and is shown to a replica, in the same order whether a twin or the script meets it, also where Redis
// refuses to write: a script that has read a key whose time is over has ended it before its first write is refused.
func TestTwinsEndWhatIsOverAsTheScriptsDo(t *testing.T) {
	kinds := []string{"acquire", "renew", "release", "reassert", "observe", "nodes", "beat", "leave", "supersede"}
	for _, what := range append([]string{"nothing"}, refusing...) {
		for _, kind := range kinds {
			now := epochNs / 1000
			c := comparison{
				clock: func() int64 { now += 137; return now }, pause: func() { now += 5000 },
				sides: []side{newModelSide(true), newModelSide(false)}, names: []string{"scripts", "twins"},
			}
			diff := c.play([]step{
				{kind: "bootstrap"}, {kind: "observe"}, {kind: "acquire", items: []int{0, 1}}, {kind: "beat"}, {kind: "beat", owner: 1},
			})
			if diff != "" {
				t.Fatal(diff)
			}
			op, _ := c.op(step{kind: kind, items: []int{0, 1}})
			now += int64(40 * time.Second / time.Microsecond) // and nobody looks: all is there, and over
			c.us, c.clock = now, func() int64 { return now }
			for _, x := range c.sides {
				if what != "nothing" {
					x.refuse(what, true)
				}
			}
			diff = c.each(func(x side) any { return c.answered(x, op) }, sameAnswer)
			if shown := c.sides[1].(*modelSide).seen; kind == "beat" && (len(shown) == 0 || shown[0] != fmt.Sprintf("%+v", Change{Kind: BeatGone})) {
				t.Errorf("%s refused: a heartbeat that is set anew shows as %q", what, shown)
			}
			if diff += c.taps(); diff != "" {
				t.Errorf("%s where %s is refused: %s", kind, what, diff)
			}
		}
	}
}

// That is what a real master does. A replica ends nothing by itself, and shows what is over as gone; the model tells of that when it is
// over, and not when there is a master again.
func TestRedisEndsWhatARefusedScriptHasRead(t *testing.T) {
	x := newRealSide(t)
	for _, what := range []string{"read-only", "full", "unsaved", "lonely", fault.DenySet} {
		c := against(x)
		if diff := c.play([]step{{kind: "observe"}, {kind: "bootstrap"}, {kind: "observe"}}); diff != "" {
			t.Fatal(diff)
		}
		op, _ := c.op(step{kind: "beat"})
		refused := func() (ended int64) {
			x.srv.Do("SET", beatKeyOf(instances[0]), "1", "PX", "300")
			over := x.now() + 301_000
			before := x.srv.Do("DBSIZE").(int64)
			x.refuse(what, true)
			for x.now() <= over { // no pause: Redis looks for what is over ten times a second by itself
				continue
			}
			if a := x.store.Do(t.Context(), op); a.Failure == core.FailNone {
				t.Fatalf("%s refuses no heartbeat", what)
			}
			ended = before - x.srv.Do("DBSIZE").(int64)
			x.refuse(what, false)
			return ended
		}
		want, got := int64(oneIf(what != "read-only")), int64(0)
		for range 5 { // but may come in between
			if got = refused(); got == want {
				break
			}
		}
		if got != want {
			t.Errorf("%s: %d keys ended, want %d", what, got, want)
		}
	}
}
