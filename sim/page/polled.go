package page

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/leasestorm/leasestorm/internal/plain"
	"github.com/leasestorm/leasestorm/sim/history"
)

type outlived struct {
	poll  event
	gone  *event // poller's last message that its lease or its renewal failed; nil: none
	taken *event // Redis' grant to another instance; nil: none
	last  event  // last known poll of the poller
	n     int    // number of its polls
}

// outlived finds the poll that broke G2, G4 or a similar guarantee; false if the events do not show it.
func (s *story) outlived() (o outlived, ok bool) {
	if s.session < 0 || !slices.Contains([]string{"G2", "G4", "E2", "I1"}, s.id) {
		return o, false
	}
	began := s.before(s.From+perMs, polls)
	if began == nil || began.at < s.From-perMs || began.instance == "" {
		return o, false
	}
	o.poll, o.last = *began, *began
	since := int64(-1)
	for i := range s.events {
		e := &s.events[i]
		mine := e.instance == began.instance
		switch {
		case e.at > began.at && mine && e.kind == history.Acquired:
			return o, o.gone != nil || o.taken != nil
		case mine && polls(e) && e.at >= began.at:
			o.last = *e
			if e.kind == began.kind {
				o.n++
			}
		case e.at > began.at:
		case mine && (e.kind == history.Acquired || e.kind == history.Renewed):
			since, o.gone, o.taken = e.at, nil, nil
		case mine && (e.kind == history.Lost || e.kind == history.Released || e.kind == history.RenewFailed && o.gone == nil):
			o.gone = e
		case !mine && isGrant(e) && e.instance != "" && e.at > since:
			o.taken = e
		}
	}
	return o, o.gone != nil || o.taken != nil
}

func polls(e *event) bool {
	return e.kind == history.PollStart || e.kind == history.Arrived || e.kind == history.Rejected
}

// onward describes polls that continued without a lease.
func (s *story) onward(o outlived) ([]part, []step) {
	a := s.nameOf(o.poll.node, o.poll.instance)
	s.owners = slices.DeleteFunc(s.owners, func(x owner) bool { return x.Node == o.poll.node })
	s.owners = slices.Insert(s.owners, 0, owner{Node: o.poll.node, Name: a, Fence: s.fenceOf(o.poll.instance)})
	steps := s.faultStep()
	var over string
	from := o.poll.at
	if o.gone != nil {
		from = o.gone.at
		word := o.gone.kind.String() + inWords(o.gone.reason)
		over = fmt.Sprintf("after it had said %s at %s", word, when(o.gone.at))
		steps = append(steps, step{us(o.gone.at), fmt.Sprintf("%s says %s. Nothing may begin from here.", a, word)})
	}
	var granted []part
	if o.taken != nil {
		z := s.nameOf(o.taken.node, o.taken.instance)
		granted = []part{{Text: "Redis had granted it to "}, {z, "b"}, {Text: " at " + when(o.taken.at)}}
		steps = append(steps, step{us(o.taken.at), fmt.Sprintf("Redis grants the lease to %s.", z)})
		if o.gone == nil {
			from, over = o.taken.at, "after "
		}
	}
	steps = append(steps, step{us(s.From), fmt.Sprintf("%s begins a poll all the same.", a)})
	if s.To = max(o.last.at, s.From); o.n > 1 {
		steps = append(steps, step{us(s.To), "The last of its polls that is drawn."})
	}
	sentence := []part{
		{a, "a"}, {Text: " polled session "}, {s.name, "code"}, {Text: " for "}, {plainly(max(s.To-from, perMs)), "red"},
		{Text: " " + over},
	}
	what := part{Text: fmt.Sprintf(" (%s, %s). ", named(s.id), plain.Count(o.n, "poll"))}
	switch {
	case o.gone == nil:
		sentence = append(append(sentence, granted...), what)
	case o.taken != nil:
		sentence = append(append(append(sentence, what), granted...), part{Text: ". "})
	default:
		sentence = append(sentence, what)
	}
	if s.fault != nil {
		sentence = append(sentence, part{Text: s.last()})
	}
	return sentence, steps
}

func inWords(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + plain.Cut(reason, 60) + ")"
}

// fenceOf returns the fence of the instance's last term of the session; 0 if it is unknown.
func (s *story) fenceOf(instance string) exact {
	for i := range slices.Backward(s.m.Events.At) {
		all := &s.m.Events
		if int(all.Session[i]) == s.session && all.At[i]*perUs <= s.From && history.Kind(all.Kind[i]) == history.Acquired &&
			s.m.Strings[all.Instance[i]] == instance {
			return all.Fence[i]
		}
	}
	return 0
}

// revived explains a fallen fence that belongs to its owner's ended term; "" if the events do not show it.
func (s *story) revived() string {
	all := &s.m.Terms
	for _, o := range s.owners {
		end, how := int64(-1), ""
		for i, of := range all.Session {
			to := (all.From[i] + all.For[i]) * perMs
			if int(of) == s.session && int(all.Node[i]) == o.Node && all.Fence[i] == o.Fence && o.Fence != 0 && to < s.From-perMs && to > end {
				end, how = to, howNames[all.How[i]]
			}
		}
		again := s.before(s.From+perMs, func(e *event) bool { return isGrant(e) && e.node == o.Node && e.at >= s.From-perMs })
		if end >= 0 && again != nil {
			return fmt.Sprintf("What Redis set is the fence that %s had before: %s put a term back that was over since %s (%s).", o.Name, o.Name,
				when(end), how)
		}
	}
	return ""
}

// beside returns the judge's text of another break of the same instance, guarantee and moment, for a break without a session.
func (s *story) beside() string {
	of := inBrackets.FindString(s.Text)
	if s.session >= 0 || of == "" || s.more {
		return ""
	}
	for _, v := range s.r.Guarantees {
		for _, x := range v.Breaks {
			if v.ID == s.id && x.Session == "" && x.Text != s.Text && x.From == s.From && strings.Contains(x.Text, of) {
				return strings.TrimSuffix(s.said(x.Text), ".") + "."
			}
		}
	}
	return ""
}

// accused makes the instance in the judge's text the owner of a break without owners and session.
func (s *story) accused() {
	if len(s.owners) > 0 || s.session >= 0 {
		return
	}
	if found := inBrackets.FindStringSubmatch(s.Text); found != nil {
		if n, known := s.c.instances[found[1]]; known && n >= 0 {
			s.owners = []owner{{Node: n, Name: s.nameOf(n, "")}}
		}
	}
}

// aTime matches a moment or a duration in Go's format that is no part of a name.
var aTime = regexp.MustCompile(`(^|[ (])((?:[0-9]+h)?(?:[0-9]+m)?[0-9]+(?:\.[0-9]+)?m?s)\b($|[^-a-zA-Z0-9_])`)

// timed rewrites times as the page's axes show them: "5m9.39627s" becomes 309.396 s.
func timed(text string) string {
	return aTime.ReplaceAllStringFunc(text, func(found string) string {
		p := aTime.FindStringSubmatch(found)
		d, err := time.ParseDuration(p[2])
		if err != nil {
			return found
		}
		length, unit := strings.TrimSuffix(p[2], "s"), " s"
		switch {
		case strings.HasSuffix(length, "m"):
			length, unit = strings.TrimSuffix(length, "m"), " ms"
		case d%(10*time.Millisecond) != 0 || d >= time.Minute:
			length, unit = when(int64(d)), ""
		}
		return p[1] + length + unit + p[3]
	})
}

var withdrawnWords = map[history.Kind]string{
	history.SessionRemoved: "The session is removed: nobody is to poll it.",
	history.SessionPaused:  "The session is paused: nobody is to poll it.",
}

// withdrawn returns the removal or pause of a session that was still polled; nil for other breaks of G8.
func (s *story) withdrawn() *event {
	if s.id != "G8" || s.due != 0 {
		return nil
	}
	e := s.before(s.From, func(e *event) bool {
		return slices.Contains([]history.Kind{
			history.SessionAdded, history.SessionRemoved, history.SessionPaused, history.SessionResumed,
		}, e.kind)
	})
	if e == nil || withdrawnWords[e.kind] == "" {
		return nil
	}
	return e
}

// keeper names the node that kept a withdrawn session, and until when.
func (s *story) keeper(gone *event) string {
	all := &s.m.Terms
	for i, of := range all.Session {
		from, to := all.From[i]*perMs, (all.From[i]+all.For[i])*perMs
		if int(of) == s.session && from <= s.From && to >= s.From {
			return fmt.Sprintf("It was taken away at %s, and %s kept its lease until %s (%s).", when(gone.at), s.nameOf(int(all.Node[i]), ""),
				when(to), howNames[all.How[i]])
		}
	}
	return fmt.Sprintf("It was taken away at %s.", when(gone.at))
}
