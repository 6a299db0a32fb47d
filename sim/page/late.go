package page

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/history"
)

// kept is the break of G13 by an owner that does not release its leases.
const kept = "G13 kept"

// words describe a break with a duration: its verb, start, deadline and end. The judge's text describes all others.
var words = map[string]struct{ what, begins, due, over string }{
	"G1": {
		"was trusted beyond its end at Redis", "Its owner says how long it trusts it: longer than Redis grants it.",
		"It ends at Redis: another may be given it.", "The window that was told ends.",
	},
	"G3": {begins: "The fence does not rise."},
	"E3": {begins: "The fence does not rise."},
	"G5": {"had no owner", "Its owner is gone.", "By here another had to own it.", "It is owned again, or the run ends."},
	"E4": {"had no leader", "Its leader is gone.", "By here another had to lead.", "It is led again, or the run ends."},
	"G8": {"was not polled", "The last poll before the gap.", "By here it had to be polled again.", "It is polled again, or the run ends."},
	"G9": {
		"was not polled after Redis failed", "Redis answers again.", "By here it had to be polled again.", "It is polled again, or the run ends.",
	},
	"G11": {due: "By here it had to own something."},
	"G10": {begins: "Redis does it."},
	"G13": {
		"was free after its owner had released it", "Its owner, which was asked to stop, releases it.", "By here another had to own it.",
		"It is owned again, or the run ends.",
	},
	kept: {
		"was still held by its owner, which had been asked to stop,", "Its owner is asked to stop.", "By here it had to be released.",
		"It is released, or the run ends.",
	},
}

// late explains a change that came too late, and every break that is neither an overlap nor a poll without a lease.
type late struct {
	*story
	kind      string // the guarantee, or kept
	withdrawn *event // removal or pause of a session that was still polled; nil for other breaks
}

func newLate(s *story) *late {
	l := &late{story: s, kind: s.id}
	if s.id == "G13" && s.due != 0 && slices.ContainsFunc(s.Owners, func(o check.Owner) bool { return l.trusts(o.Instance, s.due) }) {
		l.kind = kept
	}
	l.withdrawn = l.withdrawal()
	return l
}

func (s *late) explain() ([]part, []step) {
	w := words[s.kind]
	s.afterwards()
	sentence := append(s.what(w.what), part{Text: s.explained()})
	if s.missed = w.due; s.due != 0 && s.missed == "" {
		s.missed = "due by here"
	}
	steps := s.faultStep()
	if e := s.withdrawn; e != nil {
		steps = append(steps, step{us(e.at), withdrawnWords[e.kind]})
		w.begins = "It is still polled."
	}
	if s.id == "G8" && s.before(s.From+perMs, polls) == nil {
		w.begins = "From here it was to be polled."
	}
	begins := "It begins."
	if s.To <= s.From {
		begins = "The judge sees it."
	}
	steps = append(steps, step{us(s.From), cmp.Or(w.begins, begins)})
	if s.due != 0 {
		steps = append(steps, step{us(s.due), s.missed})
	}
	if s.To > s.From {
		steps = append(steps, step{us(s.To), s.over(cmp.Or(w.over, "It is over, or noticed."))})
	}
	return sentence, steps
}

// what returns the first part of the sentence: in the words of the guarantee for a lease, else in the judge's.
func (s *late) what(verb string) []part {
	switch {
	case (s.id == "G1" || s.id == "E1") && s.due != 0 && len(s.owners) > 0:
		return []part{
			{s.owners[0].Name, "a"}, {Text: " trusted the lease of session "}, {s.name, "code"}, {Text: " for "}, {plainly(s.To - s.due), "red"},
			{Text: fmt.Sprintf(" longer than Redis had granted it: at %s it said until %s, Redis until %s. Another could own it meanwhile. ",
				when(s.From), when(s.To), when(s.due))},
		}
	case verb == "" || s.session < 0 || s.due == 0:
		v, _ := check.Result{Verdicts: s.r.Guarantees}.Verdict(s.id)
		text := s.said(cmp.Or(s.Text, clause(v.Detail)))
		return []part{{named(s.id), "red"}, {Text: " broke: " + strings.TrimSuffix(text, ".") + ". "}}
	}
	parts := []part{{Text: "Session "}, {s.name, "code"}}
	if len(s.owners) > 0 {
		parts = append(parts, part{Text: " of "}, part{s.owners[0].Name, "a"})
	}
	return append(parts, part{Text: " " + verb + " for "}, part{plainly(s.To - s.From), "red"}, part{Text: fmt.Sprintf(
		" from %s, %s longer than allowed (%s). ", when(s.From), plainly(max(0, s.To-s.due)), named(s.id))})
}

// trusts reports whether the instance's last message about the lease says that it acquired it.
func (s *late) trusts(instance string, at int64) bool {
	e := s.lastOf(instance, at, history.Acquired, history.Released, history.Lost)
	return e != nil && e.kind == history.Acquired
}

// ending lists the events that end a late change.
var ending = map[string][]history.Kind{
	"G5": {history.Acquired}, "E4": {history.Acquired}, "G13": {history.Acquired},
	"G8": {history.Arrived}, "G9": {history.Arrived}, kept: {history.Released},
}

// over selects one of the two endings in words: the event that ends the delay, or the end of the run.
func (s *late) over(words string) string {
	again, both := strings.CutSuffix(words, ", or the run ends.")
	kinds := ending[s.kind]
	if !both || len(kinds) == 0 {
		return words
	}
	next := slices.IndexFunc(s.events, func(e event) bool { return e.at >= s.To-perMs && slices.Contains(kinds, e.kind) })
	switch {
	case next >= 0 && s.events[next].at <= s.To+perMs:
		return again + "."
	case s.kind == kept && s.endedThen():
		return "Its owner’s process ends."
	case next >= 0:
		return fmt.Sprintf("The judge measures until here. %s at %s.", again, when(s.events[next].at))
	case often(kinds[0]) && s.To+perMs < s.m.End*perMs: // later events are not kept
		return "The judge measures until here."
	}
	return "It was not over when the run ended."
}

func (s *late) endedThen() bool {
	return len(s.owners) > 0 && s.owners[0].Node >= 0 && slices.ContainsFunc(s.m.Nodes[s.owners[0].Node].Lives, func(l [2]int64) bool {
		return l[1] >= ms(s.To)-1 && l[1] <= ms(s.To)+1
	})
}

// afterwards extends a break that was noticed at its deadline to its real end.
func (s *late) afterwards() {
	if s.due == 0 || s.To > s.due+perMs {
		return
	}
	if s.kind == kept {
		s.To = max(s.To, s.trustedUntil())
		return
	}
	over := ending[s.kind]
	for _, e := range s.events {
		if e.at > s.due && slices.Contains(over, e.kind) {
			s.To = e.at
			return
		}
	}
	if len(over) > 0 && s.session >= 0 {
		s.To = max(s.To, s.m.End*perMs)
	}
}

// trustedUntil returns the end of the owner's trust, if that is after the deadline.
func (s *late) trustedUntil() int64 {
	all := &s.m.Terms
	for i, of := range all.Session {
		end := (all.From[i] + all.For[i]) * perMs
		if int(of) == s.session && all.From[i]*perMs <= s.due && end >= s.due && len(s.owners) > 0 && int(all.Node[i]) == s.owners[0].Node {
			return end
		}
	}
	return 0
}

// explained returns the explanation that the events show: the excess of a window over its grant, or the last messages, and the last
// fault.
func (s *late) explained() string {
	if (s.id == "G1" || s.id == "E1") && s.due != 0 && len(s.owners) > 0 {
		return cmp.Or(s.anchored(), s.lastFault())
	}
	if s.id == "G3" || s.id == "E3" {
		if text := s.emptied(); text != "" {
			return strings.TrimSpace(text + " " + s.revived())
		}
	}
	if text := s.beside(); text != "" {
		return text
	}
	if e := s.withdrawn; e != nil {
		return s.keeper(e)
	}
	return strings.TrimSpace(s.lastFault() + " " + s.meanwhile())
}

// anchored explains an overlong window by the moment from which the owner counted it; "" if the events do not show it.
func (s *late) anchored() string {
	id, a := shown(s.Owners[0].Instance), s.owners[0].Name
	mine := func(kinds ...history.Kind) func(e *event) bool {
		return func(e *event) bool { return (e.instance == id || e.instance == "") && slices.Contains(kinds, e.kind) }
	}
	said := s.before(s.From, mine(history.Acquired, history.Renewed))
	asked := s.before(s.From, mine(history.RenewStart))
	done := s.before(s.From, mine(history.RedisGranted, history.RedisExtended))
	if said == nil || done == nil || said.until == 0 {
		return ""
	}
	late, answer := said.until-s.due, said.at-done.at
	if answer > 0 && late-answer < max(answer/10, perMs/2) && answer-late < max(answer/10, perMs/2) {
		return fmt.Sprintf("Redis had done it at %s, and the answer came at %s, %s later: %s counts its trust from the answer, as long as Redis "+
			"counts from when it did it.", when(done.at), when(said.at), plainly(answer), a)
	}
	if asked == nil || asked.at > done.at || asked.at < done.at-int64(s.p.TTL) {
		return fmt.Sprintf("From when Redis did it, at %s, it counts %s, %.3g %% more than the %s that Redis counts "+
			"for a TTL of %s, as their clocks go.", when(done.at), plainly(said.until-done.at),
			100*float64(late)/float64(max(1, s.due-done.at)), plainly(s.due-done.at), plainly(int64(s.p.TTL)))
	}
	return fmt.Sprintf("%s had asked at %s and counts %s from there; Redis did it at %s and counts %s, as clocks go.", a, when(asked.at),
		plainly(said.until-asked.at), when(done.at), plainly(s.due-done.at))
}

// emptied explains a fallen fence by a loss of Redis' data since the previous grant; "" if there was none.
func (s *late) emptied() string {
	before := s.before(s.From-perMs, func(e *event) bool { return e.kind == history.Acquired })
	if before == nil {
		return ""
	}
	for _, m := range slices.Backward(s.m.Marks) {
		lost := m.Kind == history.RedisFlushed.String() || m.Kind == history.RedisUp.String() && m.Why == "empty"
		if at := m.At * perMs; lost && at > before.at && at <= s.From {
			s.fault = s.wiped(m.At)
			return fmt.Sprintf("Between the last grant before it, at %s, and this one Redis lost its data, at %s.", when(before.at), when(at))
		}
	}
	return ""
}

// wiped returns the planned fault that took Redis' data at that moment, in ms; nil if there is none.
func (s *late) wiped(at int64) *spell {
	for i := range s.m.Faults {
		if f := &s.m.Faults[i]; f.Node < 0 && f.Session < 0 && f.From <= at+1 && at <= f.To+1 && strings.HasPrefix(f.Kind, "redis-") {
			return f
		}
	}
	return nil
}

var told = []history.Kind{
	history.RenewStart, history.Renewed, history.RenewFailed, history.Acquired, history.Lost, history.Released, history.AcquireFailed,
}

// meanwhile describes the last message about a lease without an owner, and the next one.
func (s *late) meanwhile() string {
	if s.due == 0 || s.session < 0 || len(s.events) == 0 {
		return ""
	}
	says := func(e *event) bool { return slices.Contains(told, e.kind) }
	last := s.before(s.due, says)
	if last == nil && !slices.ContainsFunc(s.events, func(e event) bool { return says(&e) }) {
		return "No node said anything of its lease."
	} else if last == nil {
		return ""
	}
	text := fmt.Sprintf("The last word about this lease until it was due was %s’s %s at %s%s.", s.nameOf(last.node, last.instance), last.kind,
		when(last.at), inWords(last.reason))
	for _, e := range s.events {
		if e.at > s.due && says(&e) {
			return text + fmt.Sprintf(" The next was %s’s %s at %s.", s.nameOf(e.node, e.instance), e.kind, when(e.at))
		}
	}
	return text
}

// revived explains a fallen fence that belongs to its owner's ended term; "" if the events do not show it.
func (s *late) revived() string {
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
func (s *late) beside() string {
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

var withdrawnWords = map[history.Kind]string{
	history.SessionRemoved: "The session is removed: nobody is to poll it.",
	history.SessionPaused:  "The session is paused: nobody is to poll it.",
}

func (s *late) withdrawal() *event {
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
func (s *late) keeper(gone *event) string {
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
