package page

import (
	"fmt"
	"slices"

	"github.com/leasestorm/leasestorm/internal/plain"
	"github.com/leasestorm/leasestorm/sim/history"
)

// outlived explains polls by an instance whose lease was over.
type outlived struct {
	*story
	poll  event
	gone  *event // poller's last message that its lease or its renewal failed; nil: none
	taken *event // Redis' grant to another instance; nil: none
	since int64  // the poller's last message that it has the lease, before the poll; -1: none
	last  event  // last known poll of the poller
	n     int    // number of its polls
}

// outlivedLease finds the poll that broke G2, G4 or a similar guarantee; nil if the events do not show it.
func outlivedLease(s *story) *outlived {
	if s.session < 0 || !slices.Contains([]string{"G2", "G4", "E2", "I1"}, s.id) {
		return nil
	}
	began := s.before(s.From+perMs, polls)
	if began == nil || began.at < s.From-perMs || began.instance == "" {
		return nil
	}
	o := &outlived{story: s, poll: *began, last: *began, since: -1}
	for i := range s.events {
		e := &s.events[i]
		mine := e.instance == began.instance
		if mine && e.at > began.at && e.kind == history.Acquired {
			break
		}
		if e.at > began.at || mine && e.at == began.at && polls(e) {
			o.after(e)
		} else {
			o.earlier(e, mine)
		}
	}
	if o.gone == nil && o.taken == nil {
		return nil
	}
	return o
}

// after counts the poll and those that follow.
func (s *outlived) after(e *event) {
	if e.instance == s.poll.instance && polls(e) {
		s.last = *e
		if e.kind == s.poll.kind {
			s.n++
		}
	}
}

// earlier follows the lease up to the poll.
func (s *outlived) earlier(e *event, mine bool) {
	switch {
	case mine && (e.kind == history.Acquired || e.kind == history.Renewed):
		s.since, s.gone, s.taken = e.at, nil, nil
	case mine && (e.kind == history.Lost || e.kind == history.Released || e.kind == history.RenewFailed && s.gone == nil):
		s.gone = e
	case !mine && isGrant(e) && e.instance != "" && e.at > s.since:
		s.taken = e
	}
}

func polls(e *event) bool {
	return e.kind == history.PollStart || e.kind == history.Arrived || e.kind == history.Rejected
}

func (s *outlived) explain() ([]part, []step) {
	a := s.nameOf(s.poll.node, s.poll.instance)
	s.owners = slices.DeleteFunc(s.owners, func(x owner) bool { return x.Node == s.poll.node })
	s.owners = slices.Insert(s.owners, 0, owner{Node: s.poll.node, Name: a, Fence: s.fenceOf(s.poll.instance)})
	steps := s.faultStep()
	var over string
	from := s.poll.at
	if s.gone != nil {
		from = s.gone.at
		word := s.gone.kind.String() + inWords(s.gone.reason)
		over = fmt.Sprintf("after it had said %s at %s", word, when(s.gone.at))
		steps = append(steps, step{us(s.gone.at), fmt.Sprintf("%s says %s. Nothing may begin from here.", a, word)})
	}
	var granted []part
	if s.taken != nil {
		z := s.nameOf(s.taken.node, s.taken.instance)
		granted = []part{{Text: "Redis had granted it to "}, {z, "b"}, {Text: " at " + when(s.taken.at)}}
		steps = append(steps, step{us(s.taken.at), fmt.Sprintf("Redis grants the lease to %s.", z)})
		if s.gone == nil {
			from, over = s.taken.at, "after "
		}
	}
	steps = append(steps, step{us(s.From), fmt.Sprintf("%s begins a poll all the same.", a)})
	if s.To = max(s.last.at, s.From); s.n > 1 {
		steps = append(steps, step{us(s.To), "The last of its polls that is drawn."})
	}
	sentence := []part{
		{a, "a"}, {Text: " polled session "}, {s.name, "code"}, {Text: " for "}, {plainly(max(s.To-from, perMs)), "red"},
		{Text: " " + over},
	}
	what := part{Text: fmt.Sprintf(" (%s, %s). ", named(s.id), plain.Count(s.n, "poll"))}
	switch {
	case s.gone == nil:
		sentence = append(append(sentence, granted...), what)
	case s.taken != nil:
		sentence = append(append(append(sentence, what), granted...), part{Text: ". "})
	default:
		sentence = append(sentence, what)
	}
	if s.fault != nil {
		sentence = append(sentence, part{Text: s.lastFault()})
	}
	return sentence, steps
}

// fenceOf returns the fence of the instance's last term of the session; 0 if it is unknown.
func (s *outlived) fenceOf(instance string) exact {
	for i := range slices.Backward(s.m.Events.At) {
		all := &s.m.Events
		if int(all.Session[i]) == s.session && all.At[i]*perUs <= s.From && history.Kind(all.Kind[i]) == history.Acquired &&
			s.m.Strings[all.Instance[i]] == instance {
			return all.Fence[i]
		}
	}
	return 0
}
