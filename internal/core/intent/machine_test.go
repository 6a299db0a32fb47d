package intent

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/leasestorm/leasestorm/internal/core"
	"pgregory.net/rapid"
)

const ms = core.Time(1_000_000)

// world is one worker's machine, and all that answers it: leases, records, pipelines. It holds the rules against it.
type world struct {
	t       *rapid.T
	m       *Machine
	cfg     Config
	now     core.Time
	fence   int64
	asks    []Effect             // not answered yet
	owner   map[string]string    // lease → session, as granted
	fences  map[string]int64     // lease → fence
	until   map[string]core.Time // lease → end of trust
	works   map[string]bool      // pipelines that run
	states  map[string]State     // records
	known   map[string]bool      // sessions that the machine has and has not forgotten
	acked   map[string]bool
	drained []Effect
}

// carry takes note of effects, and checks what each must never be.
func (w *world) carry(effects []Effect) {
	for _, e := range slices.Clone(effects) {
		switch e.Kind {
		case Release:
			if w.works[e.Session] {
				w.t.Fatalf("the leases of %s are released while its pipeline runs", e.Session)
			}
			for _, l := range e.Leases {
				delete(w.owner, l)
			}
			w.asks = append(w.asks, e)
		case Abandon:
			for _, l := range e.Leases {
				delete(w.owner, l)
			}
		case Launch:
			service, tuner := "service:"+e.Session[:1], slotLease(e.Slot)
			if w.owner[service] != e.Session || w.owner[tuner] != e.Session || w.fences[service] != e.Fence || w.fences[tuner] != e.SlotFence {
				w.t.Fatalf("%s is launched without both leases: %v", e.Session, w.owner)
			}
			if w.now >= min(w.until[service], w.until[tuner])-core.Time(w.cfg.Grace) {
				w.t.Fatalf("%s is launched with no time left", e.Session)
			}
			w.asks = append(w.asks, e)
		case Write:
			if e.State == Ended {
				for l, s := range w.owner {
					if s == e.Session {
						w.t.Fatalf("%s is written ENDED while it holds %s", s, l)
					}
				}
			}
			w.asks = append(w.asks, e)
		case Forget:
			for l, s := range w.owner {
				if s == e.Session {
					w.t.Fatalf("%s is forgotten and holds %s", s, l)
				}
			}
			if w.works[e.Session] {
				w.t.Fatalf("%s is forgotten and its pipeline runs", e.Session)
			}
			delete(w.known, e.Session)
		case Drained:
			w.drained = append(w.drained, e)
		case Bury:
			w.acked[e.Session] = true
		default:
			w.asks = append(w.asks, e)
		}
	}
	launches := 0
	for _, e := range w.asks {
		if e.Kind == Launch {
			launches++
		}
	}
	for _, runs := range w.works {
		if runs {
			launches++
		}
	}
	if w.m.works != launches {
		w.t.Fatalf("%d pipelines run or are being started; the machine counts %d", launches, w.m.works)
	}
	for l, until := range w.until { // whoever runs was asked to stop in time
		s := w.owner[l]
		if s != "" && w.works[s] && w.now >= until-core.Time(w.cfg.Grace) && !w.halted(s) {
			w.t.Fatalf("%s runs at %d and its trust in %s ends at %d", s, w.now, l, until)
		}
	}
}

func (w *world) halted(session string) bool {
	return slices.ContainsFunc(w.asks, func(e Effect) bool { return e.Kind == Halt && e.Session == session })
}

func (w *world) step(e Event) {
	e.Now = w.now
	w.carry(w.m.Step(e))
}

// answer answers one thing that was asked, in a way that is drawn.
func (w *world) answer(calm bool) {
	i := 0
	if !calm {
		i = rapid.IntRange(0, len(w.asks)-1).Draw(w.t, "which")
	}
	e := w.asks[i]
	w.asks = slices.Delete(w.asks, i, i+1)
	draw := func(n int) int {
		if calm {
			return 0
		}
		return rapid.IntRange(0, n).Draw(w.t, "how")
	}
	ev := Event{Session: e.Session, Lease: e.Lease}
	switch e.Kind {
	case Acquire:
		ev.Kind = EvLease
		switch how := draw(3); {
		case w.owner[e.Lease] != "" || how == 1:
			ev.Outcome, ev.Owner, ev.Wait = Held, "another", int64(500*ms)
		case how == 0:
			w.fence++
			w.owner[e.Lease], w.fences[e.Lease], w.until[e.Lease] = e.Session, w.fence, w.now+1000*ms
			ev.Outcome, ev.Fence, ev.Until = Granted, w.fence, w.until[e.Lease]
		case how == 2:
			ev.Outcome = NoAnswer
		default:
			ev.Outcome, ev.Wait = NotNow, int64(200*ms)
		}
	case Release:
		ev.Kind = EvReleased
	case Write:
		ev.Kind = EvWritten
		ev.Wrote = []Wrote{WroteOK, WroteFailed, WroteStop, WroteOver, WroteMissing}[draw(4)]
		if ev.Wrote == WroteOK || ev.Wrote == WroteStop {
			w.states[e.Session] = e.State
		}
		if ev.Wrote != WroteFailed && e.Ack != "" {
			w.acked[e.Session] = true
		}
	case Launch:
		ev.Kind = EvLaunched
		ev.Launch = []Launched{LaunchOK, LaunchDoubt, LaunchFail}[draw(2)]
		w.works[e.Session] = ev.Launch == LaunchOK
	case Halt:
		delete(w.works, e.Session)
		ev.Kind = EvReturned
	}
	w.step(ev)
}

// Whatever happens in whatever order: both leases or none, no pipeline without them or past its time, nothing released under a
// pipeline; and when all is calm again every session is running or has ended, and after a drain nothing is left (I1, I3, I5).
func TestAnyOrder(t *testing.T) { // I1, I3, I5
	rapid.Check(t, func(rt *rapid.T) {
		w := &world{t: rt, cfg: Config{
			Worker: "w", Slots: []string{"1", "2"}, Grace: int64(100 * ms), StopTimeout: int64(300 * ms), Retry: int64(10 * ms),
			Patience: int64(3000 * ms), MaxTries: 3, Starting: 3,
		}, owner: map[string]string{}, fences: map[string]int64{}, until: map[string]core.Time{}, works: map[string]bool{},
			states: map[string]State{}, known: map[string]bool{}, acked: map[string]bool{}, now: 1}
		w.m = machineOf(w.cfg)
		for i := range rapid.IntRange(1, 60).Draw(rt, "steps") {
			w.random(i)
		}
		w.calm()
		for id := range w.known {
			if w.states[id] != Running || !w.works[id] {
				rt.Fatalf("%s is %v (runs: %v) long after the last fault", id, w.states[id], w.works[id])
			}
		}
		w.step(Event{Kind: EvDrain})
		w.calm()
		if len(w.drained) != 1 || !reflect.DeepEqual(w.drained[0], Effect{Kind: Drained}) || len(w.m.sessions) != 0 || len(w.owner) != 0 {
			rt.Fatalf("drained: %+v; %d sessions and the leases %v are left", w.drained, len(w.m.sessions), w.owner)
		}
	})
}

// random does one thing.
func (w *world) random(i int) {
	switch what := rapid.IntRange(0, 7).Draw(w.t, "what"); {
	case what == 0:
		id := fmt.Sprintf("%c%d", 'a'+rapid.IntRange(0, 2).Draw(w.t, "service"), i)
		w.known[id] = true
		w.step(Event{Kind: EvEntry, Entry: Entry{ID: id, Session: id, Service: id[:1], Tries: 1}})
	case what == 1:
		w.pass(core.Time(rapid.IntRange(1, 400).Draw(w.t, "ms")) * ms)
	case what == 2 && len(w.owner) > 0:
		l := rapid.SampledFrom(w.held()).Draw(w.t, "lease")
		fence := w.fences[l]
		delete(w.owner, l)
		w.step(Event{Kind: EvLost, Lease: l, Fence: fence})
	case what == 3 && len(w.owner) > 0:
		w.renew(rapid.SampledFrom(w.held()).Draw(w.t, "lease"))
	case what == 4 && len(w.states) > 0:
		w.step(Event{Kind: EvStop, Session: rapid.SampledFrom(w.sessions()).Draw(w.t, "session")})
	case what == 5:
		w.step(Event{Kind: EvCheck})
	case len(w.asks) > 0:
		w.answer(false)
	}
}

func (w *world) held() []string {
	var all []string
	for l := range w.owner {
		all = append(all, l)
	}
	slices.Sort(all)
	return all
}

func (w *world) sessions() []string {
	var all []string
	for id := range w.states {
		all = append(all, id)
	}
	slices.Sort(all)
	return all
}

func (w *world) renew(l string) {
	w.until[l] = w.now + 1000*ms
	w.step(Event{Kind: EvRenewed, Lease: l, Fence: w.fences[l], Until: w.until[l]})
}

// pass lets time pass in the steps in which the machine wants to be told. Leases that run out are lost.
func (w *world) pass(d core.Time) {
	end := w.now + d
	for {
		next := w.m.Next()
		if next == 0 || next > end {
			break
		}
		w.now = max(w.now, next)
		w.step(Event{Kind: EvTick})
	}
	w.now = end
	w.step(Event{Kind: EvTick})
	for _, l := range w.held() {
		if w.now >= w.until[l] {
			delete(w.owner, l)
			w.step(Event{Kind: EvLost, Lease: l, Fence: w.fences[l]})
		}
	}
}

// calm answers everything well, renews what is held, and lets time pass.
func (w *world) calm() {
	for range 200 {
		for range 100 {
			if len(w.asks) == 0 {
				break
			}
			w.answer(true)
		}
		for _, l := range w.held() {
			w.renew(l)
		}
		w.pass(50 * ms)
	}
}

// A drain takes nothing more. It waits for pipelines as long as they may take, and then for Redis' word; what has neither by then is left.
func TestDrainEnds(t *testing.T) { // I3
	for _, c := range []struct {
		name    string
		runs    bool
		returns core.Time // 0: never
		answers bool
		at      core.Time
		want    Effect
	}{
		{"nothing runs", false, 0, true, 0, Effect{Kind: Drained}},
		{"it returns and Redis answers", true, 400 * ms, true, 400 * ms, Effect{Kind: Drained}},
		{"it returns and Redis does not answer", true, 400 * ms, false, 700 * ms, Effect{Kind: Drained, Left: 1}},
		{"it does not return", true, 0, true, 1300 * ms, Effect{Kind: Drained, Left: 1, Stuck: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := machineOf(Config{Worker: "w", Slots: []string{"1"}, StopTimeout: int64(1000 * ms), Patience: int64(300 * ms), Retry: int64(10 * ms)})
			now := core.Time(0)
			var drained []Effect
			tell := func(events ...Event) {
				for _, e := range events {
					e.Now, e.Session = now, "a"
					for _, effect := range m.Step(e) {
						if effect.Kind == Drained {
							drained = append(drained, effect)
						}
					}
				}
			}
			entry := Event{Kind: EvEntry, Entry: Entry{ID: "1", Session: "a", Service: "a", Tries: 1}}
			granted := func(lease string) Event {
				return Event{Kind: EvLease, Lease: lease, Outcome: Granted, Fence: 1, Until: 5000 * ms}
			}
			ok := Event{Kind: EvWritten, Wrote: WroteOK}
			if !m.Takes() || !m.Idle() {
				t.Error("it takes nothing before the drain")
			}
			if c.runs {
				tell(entry, granted(serviceLease("a")), granted(slotLease("1")), ok, Event{Kind: EvLaunched, Launch: LaunchOK}, ok)
			}
			tell(Event{Kind: EvDrain}, entry)
			if m.Takes() || m.Idle() {
				t.Error("it takes starts that it will not run")
			}
			for len(drained) == 0 && now < 5000*ms {
				if now = m.Next(); c.returns != 0 && now > c.returns {
					now, c.returns = c.returns, 0
					tell(Event{Kind: EvReturned})
					if c.answers {
						tell(Event{Kind: EvReleased}, ok)
					}
					continue
				}
				tell(Event{Kind: EvTick})
			}
			if len(drained) != 1 || !reflect.DeepEqual(drained[0], c.want) || now != c.at {
				t.Fatalf("at %d: %+v, want %+v at %d", now, drained, c.want, c.at)
			}
			if out := m.Step(Event{Kind: EvReturned, Session: "a", Now: now}); len(out) > 0 || m.Next() != 0 {
				t.Errorf("after that: %+v, and wants to be woken at %d", out, m.Next())
			}
		})
	}
}

// A slot that is being given back may be free in Redis already: no start ends for want of a slot before that is answered.
func TestSlotBeingGivenBack(t *testing.T) {
	m := machineOf(Config{Worker: "w", Slots: []string{"1"}, Grace: int64(100 * ms), StopTimeout: int64(1000 * ms), Retry: int64(10 * ms)})
	now := core.Time(0)
	step := func(e Event, want EffectKind) Effect {
		t.Helper()
		e.Now = now
		for _, effect := range m.Step(e) {
			if effect.Kind == want {
				return effect
			}
		}
		t.Fatalf("%+v does not lead to effect %d", e, want)
		return Effect{}
	}
	granted := func(session, lease string) Event {
		return Event{Kind: EvLease, Session: session, Lease: lease, Outcome: Granted, Fence: 1, Until: now + 5000*ms}
	}
	step(Event{Kind: EvEntry, Entry: Entry{ID: "1", Session: "a", Service: "a", Tries: 1}}, Acquire)
	step(granted("a", serviceLease("a")), Acquire)
	step(granted("a", slotLease("1")), Write)
	m.Step(Event{Kind: EvStop, Now: now, Session: "a"})
	step(Event{Kind: EvWritten, Session: "a", Wrote: WroteOK}, Release)
	step(Event{Kind: EvEntry, Entry: Entry{ID: "2", Session: "b", Service: "b", Tries: 1}}, Acquire)
	if out := m.Step(granted("b", serviceLease("b"))); len(out) != 0 {
		t.Fatalf("with the slot under way: %+v", out)
	}
	step(Event{Kind: EvReleased, Session: "a"}, Write)
	now += 20 * ms
	if got := step(Event{Kind: EvTick}, Acquire); got.Lease != slotLease("1") {
		t.Errorf("asked for %q", got.Lease)
	}
}

// A slot that is given back while another one is being tried is tried too, also when the other one was only a second thought.
func TestSlotGivenBackMeanwhile(t *testing.T) { // I5
	m := machineOf(Config{Worker: "w", Slots: []string{"1", "2"}, Grace: int64(100 * ms), StopTimeout: int64(1000 * ms), Retry: int64(10 * ms)})
	now := core.Time(0)
	tell := func(e Event) []Effect {
		e.Now = now
		return m.Step(e)
	}
	answer := func(session, lease string, o Outcome) []Effect {
		return tell(Event{Kind: EvLease, Session: session, Lease: lease, Outcome: o, Fence: 1, Owner: "other", Wait: int64(4000 * ms), Until: now + 5000*ms})
	}
	entry := func(session string) {
		tell(Event{Kind: EvEntry, Entry: Entry{ID: session, Session: session, Service: session, Tries: 1}})
		answer(session, serviceLease(session), Granted)
	}
	tries := func(out []Effect, slot string) {
		t.Helper()
		if len(out) != 1 || out[0].Kind != Acquire || out[0].Lease != slotLease(slot) {
			t.Fatalf("slot %s is not tried: %+v", slot, out)
		}
	}
	entry("a")
	answer("a", slotLease("1"), Granted)
	entry("b") // finds the second slot to be another's
	answer("b", slotLease("2"), Held)
	now += 20 * ms
	tell(Event{Kind: EvStop, Session: "a"})
	tell(Event{Kind: EvWritten, Session: "a", Wrote: WroteOK}) // gives the first one back
	tell(Event{Kind: EvEntry, Entry: Entry{ID: "c", Session: "c", Service: "c", Tries: 1}})
	tries(answer("c", serviceLease("c"), Granted), "2") // the first is not free yet
	tell(Event{Kind: EvReleased, Session: "a"})
	tries(answer("c", slotLease("2"), Held), "1")
}

// An older copy of Redis' data has a start on the bus again that its worker runs. Who is given it ends it for its stop only under the
// service lease: without that, the pipeline may run.
func TestStopOfWhatAnotherMayRun(t *testing.T) { // I3
	m := machineOf(Config{Worker: "w", Slots: []string{"1"}, Grace: int64(100 * ms), StopTimeout: int64(1000 * ms), Retry: int64(10 * ms)})
	now := core.Time(0)
	tell := func(e Event, want EffectKind) {
		t.Helper()
		e.Now = now
		out := m.Step(e)
		switch {
		case want == 0 && len(out) == 0:
		case want == 0 || len(out) != 1 || out[0].Kind != want:
			t.Fatalf("%+v leads to %+v", e, out)
		}
	}
	service := serviceLease("a")
	held := Event{Kind: EvLease, Session: "a", Lease: service, Outcome: Held, Owner: "other", Wait: int64(1000 * ms)}
	again := func(o Outcome) {
		t.Helper()
		tell(Event{Kind: EvEntry, Entry: Entry{ID: "1", Session: "a", Service: "a", Tries: 2, Owner: "other", Fence: 7}}, Acquire)
		tell(Event{Kind: EvLease, Session: "a", Lease: service, Outcome: NotNow, Wait: int64(1000 * ms)}, 0)
		tell(Event{Kind: EvStop, Session: "a"}, 0)
		now += 1000 * ms
		tell(Event{Kind: EvTick}, Acquire)
		tell(held, 0)
		now += 1000 * ms
		tell(Event{Kind: EvTick}, Acquire)
		if o == Held {
			tell(held, Forget) // it lives, and has heard of the stop itself
			return
		}
		tell(Event{Kind: EvLease, Session: "a", Lease: service, Outcome: Granted, Fence: 8, Until: now + 5000*ms}, Release)
		tell(Event{Kind: EvReleased, Session: "a"}, Write)
	}
	again(Held)
	again(Granted)
}

// An older copy of Redis' data has the start of what runs on the bus again: what writes that it runs is done with its entry each time.
func TestCheckIsDoneWithTheEntry(t *testing.T) { // I3
	m := machineOf(Config{Worker: "w", Slots: []string{"1"}, Retry: int64(10 * ms)})
	granted := func(lease string) Event {
		return Event{Kind: EvLease, Lease: lease, Outcome: Granted, Fence: 1, Until: 5000 * ms}
	}
	var acks []string
	tell := func(e Event) {
		e.Session = "a"
		for _, effect := range m.Step(e) {
			if effect.Kind == Write && effect.State == Running {
				acks = append(acks, effect.Ack)
			}
		}
	}
	ok := Event{Kind: EvWritten, Wrote: WroteOK}
	for _, e := range []Event{
		{Kind: EvEntry, Entry: Entry{ID: "1", Session: "a", Service: "a", Tries: 1}}, granted(serviceLease("a")), granted(slotLease("1")), ok,
		{Kind: EvLaunched, Launch: LaunchOK}, ok, {Kind: EvCheck}, ok,
	} {
		tell(e)
	}
	if !slices.Equal(acks, []string{"1", "1"}) {
		t.Errorf("RUNNING was written with the entries %q", acks)
	}
}

func serviceLease(service string) string { return "service:" + service }

func slotLease(slot string) string { return "tuner:" + slot }

func machineOf(c Config) *Machine {
	c.Resource, c.Slot = "service", "tuner"
	return New(c)
}
