package redis

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"pgregory.net/rapid"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/sim/fault"
)

// A side is a Redis with the store on it: a real one, or the model. A comparison leads several through the same steps.
type side interface {
	// do executes one op of any kind at the time us (µs of its clock); a real side has a clock of its own.
	do(us int64, op *core.Op, sessions *core.Sessions) core.Answer
	// command executes one command, as whoever else uses this Redis may, and says when.
	command(us int64, args ...string) (int64, Reply)
	spoil(name string) // puts a list in the place of the key
	// restart begins another run and returns its name, which a model is told.
	restart(run string, empty bool) string
	forget() // SCRIPT FLUSH
	// refuse makes this Redis refuse what one of the refusing says, or not any more.
	refuse(what string, on bool)
	// notices are those published since the last call.
	notices() []core.Notice
	// keys shows the keys of the universe that are there.
	keys(us int64) map[string]value
}

// The universe of a comparison. Life times leave a rest of 900 ms that no sum of shifts uses up, so that none ends near
// the moment at which it is looked at; "soon" makes keys end.
var (
	leaseIDs  = []string{"x", "y", "z"}
	instances = []string{"a", "b", "c"}
	lives     = []int64{10_900, 20_900, 30_900}
	shifts    = []int64{1_000, 7_000, 20_000, 86_400_000}
	universe  = func() []string {
		names := []string{"poll:epoch", "elsewhere", groupKey}
		for i := range leaseIDs {
			names = append(names, leaseKeyOf(leaseIDs[i]), fenceKeyOf(leaseIDs[i]), beatKeyOf(instances[i]))
		}
		return names
	}()
)

const groupKey = "poll:epoch:group"

func leaseKeyOf(id string) string { return "poll:lease:" + id }
func fenceKeyOf(id string) string { return "{poll:lease:" + id + "}:fence" }
func beatKeyOf(id string) string  { return "poll:node:" + id }

// quarantineMs is how long a quarantine lasts in a comparison.
const quarantineMs = 30_900

// step is one thing that happens. Its numbers are small, so that rapid can make them smaller; what they mean, the kind
// says.
type step struct {
	kind  string
	owner int
	items []int // of leaseIDs, or of instances; also with repetitions
	life  int   // of lives or shifts
	n     int   // -2…2
	stale bool  // the op names another epoch
	fresh bool
}

func (s step) String() string {
	return fmt.Sprintf("%s(owner %d, items %v, life %d, n %d, stale %v, fresh %v)", s.kind, s.owner, s.items, s.life, s.n, s.stale, s.fresh)
}

// kinds of steps, as often as they are to happen.
var kinds = func() []string {
	var out []string
	for _, k := range []struct {
		kind string
		of   int
	}{
		{"acquire", 20}, {"renew", 12}, {"release", 14}, {"reassert", 12}, {"observe", 4}, {"nodes", 4}, {"beat", 6},
		{"leave", 4}, {"look", 5}, {"ask", 2}, {"supersede", 2}, {"set group", 2},
		{"set lease", 3}, {"set fence", 2}, {"set epoch", 2}, {"delete", 4}, {"read", 3}, {"spoil", 3},
		{"bootstrap", 8}, {"shift", 8}, {"soon", 3}, {"flush", 2}, {"restart", 1}, {"restart empty", 1}, {"forget", 2},
		{"refuse", 7}, {"accept", 14},
	} {
		for range k.of {
			out = append(out, k.kind)
		}
	}
	return out
}()

// refusing is what a Redis refuses, as often as that is to happen.
var refusing = []string{
	"read-only", "full", "full", "unsaved", "lonely", fault.DenyFences, fault.DenyLeases, fault.DenySet, fault.DenySet,
}

func drawSteps() *rapid.Generator[[]step] {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
		return step{
			kind: rapid.SampledFrom(kinds).Draw(t, "kind"), owner: rapid.IntRange(0, 2).Draw(t, "owner"),
			items: rapid.SliceOfN(rapid.IntRange(0, 2), 0, 4).Draw(t, "items"), life: rapid.IntRange(0, 2).Draw(t, "life"),
			n: rapid.IntRange(-2, 2).Draw(t, "n"), stale: rapid.IntRange(0, 9).Draw(t, "stale") == 9,
			fresh: rapid.IntRange(0, 3).Draw(t, "fresh") == 3,
		}
	}), 1, 60)
}

// comparison leads sides through steps. The first has the clock that the others are set by.
type comparison struct {
	clock func() int64 // µs
	pause func()       // lets 4 ms or more pass on it
	sides []side
	names []string
	runs  int
	epoch string
	// limited: Redis was made to refuse something, and not restarted since.
	limited bool
	top     int64 // the highest fence granted
	us      int64
}

// play returns the first difference, "" if there is none.
func (c *comparison) play(steps []step) string {
	for i, s := range steps {
		if diff := c.step(s); diff != "" {
			return fmt.Sprintf("step %d, %s: %s", i, s, diff)
		}
	}
	return ""
}

func (c *comparison) step(s step) string {
	var diff string
	c.us = c.clock()
	if op, ok := c.op(s); ok {
		if op.Kind == core.OpLook { // several scripts, at several times: none of them may be the one that begins an epoch
			diff = c.step(step{kind: "observe", life: s.life, n: s.n, stale: s.stale})
		}
		diff = cmp.Or(diff, c.each(func(x side) any { return c.answered(x, op) }, sameAnswer))
	} else {
		diff = c.world(s)
	}
	if diff != "" {
		return diff
	}
	if diff = c.each(func(x side) any { return x.notices() }, sameNotices); diff != "" {
		return diff
	}
	c.us = c.clock()
	return cmp.Or(c.each(func(x side) any { return x.keys(c.us) }, sameKeys), c.taps())
}

// taps compares what replicas of the models would have seen.
func (c *comparison) taps() string {
	var want []string
	first := true
	for _, x := range c.sides {
		m, ok := x.(*modelSide)
		if !ok {
			continue
		}
		if got := m.seen; !first && !slices.Equal(got, want) {
			return fmt.Sprintf("replicas see %q and %q", want, got)
		}
		want, first, m.seen = m.seen, false, nil
	}
	return ""
}

// each has every side do something and compares what one gave with what the one before gave.
func (c *comparison) each(do func(side) any, same func(want, got any, tolerance int64) string) string {
	want := do(c.sides[0])
	for i, x := range c.sides[1:] {
		tolerance := int64(0)
		if _, model := c.sides[i].(*modelSide); !model {
			tolerance = toleranceMs
		}
		got := do(x)
		if diff := same(want, got, tolerance); diff != "" {
			return fmt.Sprintf("%s against %s: %s", c.names[i+1], c.names[i], diff)
		}
		want = got
	}
	return ""
}

// answered executes an op. The first side tells the time at which the others execute it.
func (c *comparison) answered(x side, op *core.Op) core.Answer {
	sessions := core.NewSessions(leaseIDs)
	a := x.do(c.us, op, sessions)
	if x == c.sides[0] {
		if c.us = a.RedisNow; c.us == 0 {
			c.us = c.clock()
		}
		if a.Epoch != "" {
			c.epoch = a.Epoch
		}
		for i := range a.Results {
			c.top = max(c.top, a.Results[i].Fence)
		}
	}
	return a
}

// op is the op that a step is, if it is one.
func (c *comparison) op(s step) (*core.Op, bool) {
	kinds := map[string]core.OpKind{
		"acquire": core.OpAcquire, "renew": core.OpRenew, "release": core.OpRelease, "reassert": core.OpReassert,
		"observe": core.OpObserve, "nodes": core.OpNodes, "beat": core.OpBeat, "leave": core.OpLeave, "look": core.OpLook,
		"ask": core.OpAsk, "supersede": core.OpSupersede,
	}
	kind, ok := kinds[s.kind]
	op := &core.Op{
		Seq: uint64(s.n + 7), Kind: kind, Epoch: c.epoch, Owner: instances[s.owner], TTL: lives[s.life] * core.Millisecond,
	}
	if s.stale {
		op.Epoch = "0000 1"
	}
	if s.n == -2 { // as an instance does that knows of a longer one than it is configured with
		op.Quarantine = lives[s.life] * core.Millisecond
	}
	if kind == core.OpBeat || kind == core.OpLeave || kind == core.OpLook ||
		kind == core.OpSupersede {
		return op, ok
	}
	if kind == core.OpAsk && len(s.items) == 0 {
		s.items = []int{0}
	}
	switch s.n {
	case 1:
		op.Fence = c.top
	case 2: // seen at a master whose clock was ahead
		op.Fence = max(c.top, c.us) + 1000
	}
	for _, i := range s.items {
		it := core.Item{ID: leaseIDs[i], Fresh: s.fresh}
		switch kind {
		case core.OpNodes:
			it.ID = instances[i]
		case core.OpRelease, core.OpReassert:
			// The term that the fence key names, or one beside it.
			it.Fence = max(1, c.fence(it.ID)+int64([]int{-1, 0, 0, 0, 1}[s.n+2]))
			if kind == core.OpRelease && s.life > 0 {
				it.Peer = instances[s.life]
			}
		case core.OpAsk:
			it.Peer = instances[s.life]
		}
		op.Items = append(op.Items, it)
	}
	return op, ok
}

// fence is what the fence key holds, 0 for nothing.
func (c *comparison) fence(id string) int64 {
	n, _ := strconv.ParseInt(c.sides[0].keys(c.us)[fenceKeyOf(id)].text, 10, 64)
	return n
}

// world does what is no op: other clients' commands, time, and what befalls Redis.
func (c *comparison) world(s step) string {
	item := 0
	if len(s.items) > 0 {
		item = s.items[0]
	}
	lease, fence := leaseKeyOf(leaseIDs[item]), fenceKeyOf(leaseIDs[item])
	life := strconv.FormatInt(lives[s.life], 10)
	any := universe[(item*3+s.owner*5+s.n+2)%len(universe)]
	switch s.kind {
	case "set lease":
		return c.command([][]string{
			{"SET", lease, instances[s.owner], "PX", life}, {"SET", lease, instances[s.owner]},
			{"SET", lease, instances[s.owner], "NX", "PX", life}, {"PEXPIRE", lease, life}, {"SET", lease, "d", "PX", "20000"},
		}[s.n+2])
	case "set fence":
		none := []string{"none", "nan", "inf", "1e300", "9007199254740992", "9223372036854775807"}[(s.life+item)%6]
		return c.command("SET", fence, []string{"1", "-5", "0", none, strconv.FormatInt(c.top+5, 10)}[s.n+2])
	case "set epoch":
		epoch := cmp.Or(c.epoch, "other 2")
		run, _, _ := strings.Cut(epoch, " ")
		return c.command("SET", "poll:epoch", []string{"other", "other 1", run, run + " -1", epoch}[s.n+2])
	case "bootstrap":
		run, _, _ := strings.Cut(cmp.Or(c.epoch, "other 2"), " ")
		return c.setEpoch(run, c.us)
	case "set group":
		return c.command("HSET", groupKey, []string{"epoch", "epoch", "quarantine", "quarantine", "later"}[s.n+2],
			[]string{c.epoch, "other 1", "-1", "5000000", "x"}[s.n+2])
	case "delete":
		return c.command("DEL", any, lease)
	case "read":
		return c.command([][]string{
			{"GET", any}, {"MGET", any, lease, fence}, {"EXISTS", any, lease, lease}, {"PTTL", any}, {"PEXPIRE", fence, "20000"},
		}[s.n+2])
	case "spoil":
		name := []string{lease, fence}[s.life%2]
		if c.limited { // it takes two commands
			return ""
		}
		return c.all(func(x side) { x.spoil(name) })
	case "shift":
		return c.shift(shifts[(s.life+item)%len(shifts)])
	case "soon":
		if any == universe[0] { // the model's epoch has no end
			any = lease
		}
		if diff := c.command("PEXPIRE", any, "1"); diff != "" {
			return diff
		}
		c.pause()
		return ""
	case "flush":
		return c.command("FLUSHALL")
	case "restart", "restart empty":
		c.runs++
		run := fmt.Sprintf("%040d", c.runs)
		c.limited = false
		return c.all(func(x side) { run = x.restart(run, s.kind != "restart") })
	case "forget":
		return c.all(side.forget)
	case "refuse":
		c.limited = true
		return c.all(func(x side) { x.refuse(refusing[(item*3+s.owner+s.life*2+s.n+2)%len(refusing)], true) })
	case "accept":
		return c.all(acceptAll)
	}
	panic(s.kind)
}

func acceptAll(x side) {
	for _, what := range refusing {
		x.refuse(what, false)
	}
}

func (c *comparison) all(do func(side)) string {
	for _, x := range c.sides {
		do(x)
	}
	return ""
}

func (c *comparison) command(args ...any) string {
	var words []string
	for _, arg := range args {
		switch arg := arg.(type) {
		case string:
			words = append(words, arg)
		case []string:
			words = append(words, arg...)
		}
	}
	c.us = c.clock()
	return c.each(func(x side) any {
		us, got := x.command(c.us, words...)
		c.us = us
		return got
	}, sameReply)
}

// shift brings the end of every key and of the quarantine nearer, as if so much time had passed.
func (c *comparison) shift(ms int64) string {
	c.us = c.clock()
	keys := c.sides[0].keys(c.us)
	for _, name := range universe {
		if v := keys[name]; v.there && v.expire != Forever {
			diff := c.command("PEXPIREAT", name, strconv.FormatInt(v.expire-ms, 10))
			if diff != "" {
				return diff
			}
		}
	}
	if run, end := parseEpoch(keys["poll:epoch"].text); run != "" {
		return c.setEpoch(run, max(0, end-1000*ms))
	}
	return ""
}

// setEpoch writes an epoch with its record.
func (c *comparison) setEpoch(run string, end int64) string {
	epoch := run + " " + strconv.FormatInt(end, 10)
	return cmp.Or(c.command("SET", "poll:epoch", epoch), c.command("HSET", groupKey, "epoch", epoch, "quarantine", "30900000"))
}

// toleranceMs is by how much the end of a key may differ from a real one: a script reads the clock for its words, and
// Redis another time for its keys. Between models it is nothing.
const toleranceMs = 50

func near(a, b, tolerance int64) bool { return a == b || max(a-b, b-a) <= tolerance }

func sameAnswer(x, y any, tolerance int64) string {
	want, got := x.(core.Answer), y.(core.Answer)
	cut := func(text string) string { // Redis adds where in which script it happened
		text, _, _ = strings.Cut(text, " script:")
		return text
	}
	switch {
	case got.Failure != want.Failure || cut(got.Text) != cut(want.Text):
		return fmt.Sprintf("failed with %d %q, want %d %q", got.Failure, got.Text, want.Failure, want.Text)
	case got.Epoch != want.Epoch || got.Stale != want.Stale:
		return fmt.Sprintf("epoch %q (stale %v), want %q (%v)", got.Epoch, got.Stale, want.Epoch, want.Stale)
	case got.Group != want.Group:
		return fmt.Sprintf("the group's quarantine %d, want %d", got.Group, want.Group)
	case got.Quarantine != want.Quarantine || want.Epoch != "" && got.RedisNow != want.RedisNow:
		return fmt.Sprintf("quarantine %d at %d, want %d at %d", got.Quarantine, got.RedisNow, want.Quarantine, want.RedisNow)
	case len(got.Results) != len(want.Results):
		return fmt.Sprintf("%d results, want %d", len(got.Results), len(want.Results))
	}
	for i, w := range want.Results {
		g := got.Results[i]
		if !near(g.PTTL/core.Millisecond, w.PTTL/core.Millisecond, tolerance) || g.Outcome != w.Outcome || g.Owner != w.Owner || g.Fence != w.Fence {
			return fmt.Sprintf("result %d is %+v, want %+v", i, g, w)
		}
	}
	return sameLook(want.Look, got.Look, tolerance)
}

func sameLook(want, got *core.Look, tolerance int64) string {
	if want == nil || got == nil {
		if want != got {
			return fmt.Sprintf("look %+v, want %+v", got, want)
		}
		return ""
	}
	byID := func(a, b core.Seen) int { return cmp.Compare(a.ID, b.ID) }
	w, g := slices.SortedFunc(slices.Values(want.Nodes), byID), slices.SortedFunc(slices.Values(got.Nodes), byID)
	if !slices.Equal(want.Owners, got.Owners) || !slices.EqualFunc(w, g, func(a, b core.Seen) bool {
		return a.ID == b.ID && near(a.PTTL/core.Millisecond, b.PTTL/core.Millisecond, tolerance)
	}) {
		return fmt.Sprintf("a look shows %v and %v, want %v and %v", got.Owners, g, want.Owners, w)
	}
	return ""
}

func sameNotices(x, y any, _ int64) string {
	want, got := x.([]core.Notice), y.([]core.Notice)
	if !slices.EqualFunc(want, got, func(a, b core.Notice) bool {
		return a.Kind == b.Kind && a.From == b.From && slices.Equal(a.IDs, b.IDs) && slices.Equal(a.Peers, b.Peers)
	}) {
		return fmt.Sprintf("notices %+v, want %+v", got, want)
	}
	return ""
}

func sameReply(x, y any, tolerance int64) string {
	if want, ok := x.(int64); ok {
		if got, ok := y.(int64); ok && near(want, got, tolerance) {
			return ""
		}
	}
	text := func(v any) string {
		s, _, _ := strings.Cut(fmt.Sprintf("%T %v", v, v), " script:")
		return s
	}
	if text(x) != text(y) {
		return fmt.Sprintf("replied %s, want %s", text(y), text(x))
	}
	return ""
}

func sameKeys(x, y any, tolerance int64) string {
	want, got := x.(map[string]value), y.(map[string]value)
	for _, name := range universe {
		w, g := want[name], got[name]
		if w.there != g.there || w.foreign != g.foreign || w.text != g.text || w.there && !near(w.expire, g.expire, tolerance) {
			return fmt.Sprintf("%s is %+v, want %+v", name, g, w)
		}
	}
	return ""
}
