package core

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/leasestorm/leasestorm/internal/term"
)

// Table is testdata/table.txt: what each event makes of a lease in each state.
type Table struct {
	states, events, reasons []string
	groups                  map[string][]string          // of states
	cells                   map[cell]map[string][]string // next state → the stories that show it; "": why it cannot be
	wrong                   []string                     // what cannot be read
}

// cell is one event in one state.
type cell struct{ state, event string }

// transition is a cell and what follows.
type transition struct {
	cell
	next string
}

func (t transition) String() string { return fmt.Sprintf("%s, %s → %s", t.state, t.event, t.next) }

// drawn is the story that is not written but drawn (walk_test.go).
const drawn = "walk"

// ReadTable reads the table. Its form is described in it.
func ReadTable(tb testing.TB) *Table {
	text, err := os.ReadFile("testdata/table.txt")
	if err != nil {
		tb.Fatal(err)
	}
	return parseTable(string(text))
}

func parseTable(text string) *Table {
	t := &Table{cells: map[cell]map[string][]string{}, groups: map[string][]string{}}
	for k, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		w := strings.Fields(line)
		switch {
		case len(w) == 0:
		case strings.HasPrefix(line, " "):
			if err := t.row(w); err != "" {
				t.wrong = append(t.wrong, fmt.Sprintf("line %d: %s", k+1, err))
			}
		case w[0] == "state":
			t.states = append(t.states, w[1])
		case w[0] == "group":
			t.groups[w[1]] = w[2:]
		case w[0] == "reason":
			t.reasons = append(t.reasons, w[1])
		default:
			name, _, _ := strings.Cut(line, ":")
			t.events = append(t.events, name)
		}
	}
	return t
}

// row takes "state... → next... story..." or "state... cannot reason", of the event named last.
func (t *Table) row(w []string) string {
	k := slices.IndexFunc(w, func(s string) bool { return s == "→" || s == "cannot" })
	if k <= 0 || k+1 == len(w) || len(t.events) == 0 {
		return "neither states → next states, stories nor states cannot reason"
	}
	rest, event := w[k+1:], t.events[len(t.events)-1]
	for _, state := range t.named(w[:k], event) {
		c := cell{state, event}
		if t.cells[c] == nil {
			t.cells[c] = map[string][]string{}
		}
		if w[k] == "cannot" {
			t.cells[c][""] = rest
			continue
		}
		n := 0
		for n < len(rest)-1 && (rest[n] == "same" || slices.Contains(t.states, rest[n])) { // a story may be named like a state
			n++
		}
		nexts, stories := rest[:n], rest[n:]
		if n == 0 {
			return "names no next state, or no story"
		}
		for _, next := range nexts {
			if next == "same" {
				next = state
			}
			t.cells[c][next] = append(t.cells[c][next], stories...)
		}
	}
	return ""
}

// named are the states that words name: a state, a group of them, or those that event's rows have not named yet.
func (t *Table) named(words []string, event string) (states []string) {
	for _, word := range words {
		switch group := t.groups[word]; {
		case group != nil:
			states = append(states, group...)
		case word == "rest":
			for _, state := range t.states {
				if t.cells[cell{state, event}] == nil {
					states = append(states, state)
				}
			}
		default:
			states = append(states, word)
		}
	}
	return states
}

// Explains reports whether the table has what happened: where more than one thing did, one after the other.
func (t *Table) Explains(h Happening) error {
	at := map[string]bool{h.From: true}
	for k, event := range h.Events {
		then := map[string]bool{}
		if len(h.Events) > 1 {
			then = maps.Clone(at) // the first may have left nothing for the next to do
		}
		for state := range at {
			for next := range t.cells[cell{state, event}] {
				if next != "" {
					then[next] = true
				}
			}
		}
		if at = then; len(at) == 0 {
			return fmt.Errorf("%s: the table says that %q cannot be here: %v", h.Lease, h.Events[k], h)
		}
	}
	if !at[h.To] {
		return fmt.Errorf("%s: the table has no such transition: %v", h.Lease, h)
	}
	return nil
}

// sights are the transitions that were seen, and in which stories.
type sights map[transition]map[string]bool

func (s sights) add(story string, h Happening) {
	if len(h.Events) > 1 {
		return // which of the two did it is not told
	}
	k := transition{cell{h.From, h.Events[0]}, h.To}
	if s[k] == nil {
		s[k] = map[string]bool{}
	}
	s[k][story] = true
}

// somewhere reports whether a walk shows an event with this outcome in any state.
func (s sights) somewhere(event, next string) bool {
	for k := range s {
		if k.event == event && k.next == next && s[k][drawn] {
			return true
		}
	}
	return false
}

// complaints are what is wrong with the table, given what was seen.
func (t *Table) complaints(seen sights) []string {
	all := slices.Clone(t.wrong)
	say := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	for _, event := range t.events {
		for _, state := range t.states {
			nexts := t.cells[cell{state, event}]
			why, cannot := nexts[""]
			switch {
			case len(nexts) == 0:
				say("%s, %s: the cell is empty", state, event)
			case cannot && (len(nexts) > 1 || len(why) != 1 || !slices.Contains(t.reasons, why[0])):
				say("%s, %s: cannot be, and is something else too, or has none of the reasons", state, event)
			}
			if cannot {
				continue
			}
			written := false
			for _, next := range slices.Sorted(maps.Keys(nexts)) {
				k := transition{cell{state, event}, next}
				shown := slices.ContainsFunc(nexts[next], func(story string) bool { return seen[k][story] })
				if !shown && !(slices.Equal(nexts[next], []string{drawn}) && seen.somewhere(event, next)) {
					say("%v: not seen in %v, but in %v", k, nexts[next], slices.Sorted(maps.Keys(seen[k])))
				}
				written = written || shown && !slices.Contains(nexts[next], drawn)
			}
			if !written {
				say("%s, %s: no story of the cell is a written one", state, event)
			}
		}
	}
	if n := len(t.cells) - len(t.events)*len(t.states); n != 0 {
		say("%d cells are of states that are not there", n)
	}
	return all
}

// storiesSeen plays all stories and returns what was seen.
func storiesSeen(t *testing.T, table *Table) sights {
	files, err := filepath.Glob("testdata/stories/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	seen := sights{}
	for _, path := range files {
		name := strings.TrimSuffix(filepath.Base(path), ".txt")
		s := &story{epoch: "r1", seen: func(h Happening) {
			seen.add(name, h)
			if err := table.Explains(h); err != nil {
				t.Errorf("story %s: %v", name, err)
			}
		}}
		steps(t, path, func(d *datadriven.TestData, _ string) { s.run(t, d) })
	}
	return seen
}

// Every event in every state has a story, which shows it, or cannot be; nothing else happens in any story, nor when an instance is told
// whatever can be told in any order.
func TestTable(t *testing.T) {
	table := ReadTable(t)
	seen := storiesSeen(t, table)
	for seed := range uint64(walks) {
		w := newWalk(seed, func(h Happening) {
			seen.add(drawn, h)
			if err := table.Explains(h); err != nil {
				t.Errorf("walk %d: %v", seed, err)
			}
		})
		for range 200 {
			w.next()
		}
	}
	for _, c := range table.complaints(seen) {
		t.Error(c)
	}
	cells, cannot := 0, 0
	for _, nexts := range table.cells {
		cells++
		if _, ok := nexts[""]; ok {
			cannot++
		}
	}
	t.Logf("%d states × %d events: %d cells have a story, %d cannot be", len(table.states), len(table.events), cells-cannot, cannot)
}

// The states of the table are those that the enum of what is next and the flags of a term make.
func TestTableHasEveryState(t *testing.T) {
	table := ReadTable(t)
	states := map[string]bool{"none": true}
	for p := range nextsOf {
		for n := range nexts {
			for flags := range 1 << 4 {
				l := &lease{Term: termIn(term.Phase(p), flags), next: n, stuck: flags&4 > 0, yielding: flags&8 > 0}
				if nextsOf[p][n] {
					for _, s := range l.states() {
						states[s] = true
					}
				}
			}
		}
	}
	if want := slices.Sorted(slices.Values(table.states)); !slices.Equal(want, slices.Sorted(maps.Keys(states))) {
		t.Errorf("the table has the states %v, leases %v", want, slices.Sorted(maps.Keys(states)))
	}
}

// A table that says less than what is seen, or more, is found wanting.
func TestTableIsHeld(t *testing.T) {
	whole, err := os.ReadFile("testdata/table.txt")
	if err != nil {
		t.Fatal(err)
	}
	const drop = "\n  trust work                         → releasing                        users\n"
	changed := func(with string) string { return strings.Replace(string(whole), drop, with, 1) }
	if changed("") == string(whole) {
		t.Fatal("the row that is changed is not there")
	}
	seen := storiesSeen(t, ReadTable(t))
	for name, c := range map[string]struct{ text, complaint string }{
		"a row is missing":         {changed("\n"), "certain, drop → certain: not seen in [users]"}, // `rest` names it
		"a cell is empty":          {strings.Replace(string(whole), "\n  rest ", "\n  ", 1), "want: the cell is empty"},
		"a story does not show":    {changed(strings.Replace(drop, "users", "stop", 1)), "missing, drop → releasing: not seen in [stop]"},
		"a next state is unseen":   {changed(strings.Replace(drop, "users", "users\n  kept → none users", 1)), "kept, drop → none: not seen in [users]"},
		"a reason is none":         {changed("\n  trust work cannot because\n"), "kept, drop: cannot be, and is something else too"},
		"only drawn":               {changed(strings.Replace(drop, "users", drawn, 1)), "missing, drop: no story of the cell is a written one"},
		"a state is none":          {changed(drop + "  helt → same users\n"), "cells are of states that are not there"},
		"a line cannot be read":    {changed("\n  trust work\n"), "neither states"},
		"a line has no next":       {changed("\n  trust work → users\n"), "names no next state, or no story"},
		"what is seen cannot be":   {changed("\n  trust work cannot request\n"), "the table says"},
		"what is seen is not here": {changed(strings.Replace(drop, "releasing", "none", 1)), "no such transition"},
	} {
		table := parseTable(c.text)
		all := table.complaints(seen)
		for k := range seen {
			if err := table.Explains(Happening{"l", k.state, []string{k.event}, k.next}); err != nil {
				all = append(all, err.Error())
			}
		}
		if !strings.Contains(strings.Join(all, "\n"), c.complaint) {
			t.Errorf("%s: no complaint has %q in it, of %d:\n%s", name, c.complaint, len(all), strings.Join(all[:min(len(all), 5)], "\n"))
		}
	}
}
