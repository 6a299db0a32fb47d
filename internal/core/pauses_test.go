package core

import "testing"

// Pauses in which the monotonic clock stands still count against the window of the request under way, also where each is too short to be
// told as a step.
func TestShortPausesWithinOneRequest(t *testing.T) { // G1
	c := New(Config{Instance: "a", NoHeartbeat: true})
	now := Now{Mono: 1, Wall: 1}
	step := func(ev Event) Effects {
		ev.Now = now
		return c.Step(ev)
	}
	sent := step(Event{Kind: EvStart}).Ops[0]
	step(Event{Kind: EvAnswer, Answer: Answer{Seq: sent.Seq, Epoch: "r1"}})
	begun := now.Wall
	sent = step(Event{Kind: EvWant, ID: "s"}).Ops[0]
	if sent.Kind != OpAcquire {
		t.Fatalf("%+v", sent)
	}
	for range 3 {
		now.Mono += Time(Second / 1000)
		now.Wall += Second/1000 + c.cfg.Margin()
		step(Event{Kind: EvTick})
	}
	told := step(Event{Kind: EvAnswer, Answer: Answer{Seq: sent.Seq, Epoch: "r1", Results: []Result{{Outcome: OutGranted, Fence: 1}}}}).Tells
	if len(told) != 1 || told[0].Kind != TellAcquired {
		t.Fatalf("%+v", told)
	}
	if most := begun + c.cfg.TTL - c.cfg.Margin(); told[0].UntilWall > most || told[0].Until > Time(most-3*c.cfg.Margin()) {
		t.Errorf("the window ends at %d, and on the wall clock at %d, want %d at most", told[0].Until, told[0].UntilWall, most)
	}
}
