package main

import (
	_ "embed"
	"fmt"
	"os"
	"slices"
	"strings"
	"text/template"
	"time"
)

//go:embed page.tmpl
var pageText string

// page is what the template of the page uses.
type page struct {
	settings
	table      *table
	Contenders []contender
	Questions  []question
}

// write writes the page.
func (t *table) write(file string, s settings) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close()
	return template.Must(template.New("page").Parse(pageText)).Execute(f, &page{s, t, contenders, questions})
}

// Flags returns the flags of simulate that choose the contender.
func (p *page) Flags(c contender, careful bool) string {
	words := p.flags(&c, careful)
	for i, w := range words {
		if strings.Contains(w, " ") {
			words[i] = "'" + w + "'"
		}
	}
	return strings.Join(words, " ")
}

// Played says how the storms were played.
func (p *page) Played() string {
	if p.virtual == 0 {
		return fmt.Sprintf("All storms ran on the real engine, with at least %d seeds each.", p.seeds)
	}
	return fmt.Sprintf("The libraries in Go ran in virtual time with %d seeds each, except on five servers. The others ran on the real "+
		"engine with at least %d.", p.virtual, p.seeds)
}

// column is a column of a table: a question, and the text of a cell.
type column struct {
	head, question string
	show           func([]result) string
}

// grid returns a table with a row for each contender and mode.
func (p *page) grid(columns []column) string {
	var b strings.Builder
	b.WriteString("| | used |")
	for _, c := range columns {
		b.WriteString(" " + c.head + " |")
	}
	b.WriteString("\n|---|---|" + strings.Repeat("---|", len(columns)) + "\n")
	for _, c := range p.Contenders {
		for _, mode := range c.modes() {
			fmt.Fprintf(&b, "| %s | %s |", c.Name, mode)
			for _, column := range columns {
				got := "–"
				if results := p.table.cells[cell{c.Name, column.question, mode}]; len(results) > 0 {
					got = column.show(results)
				}
				b.WriteString(" " + got + " |")
			}
			b.WriteString("\n")
		}
	}
	return b.String() + "\n"
}

// grids returns tables of up to six of the questions at which any storm showed something, and names the others.
func (p *page) grids(shows func(*result) bool, show func([]result) string) string {
	var columns []column
	var quiet []string
	for _, q := range p.Questions {
		played, any := false, false
		for k, results := range p.table.cells {
			for i := range results {
				played, any = played || k.question == q.Name, any || k.question == q.Name && shows(&results[i])
			}
		}
		switch {
		case any:
			columns = append(columns, column{q.Asks, q.Name, show})
		case played && q.Name != calm:
			quiet = append(quiet, q.Asks)
		}
	}
	var tables strings.Builder
	for part := range slices.Chunk(columns, 6) {
		tables.WriteString(p.grid(part))
	}
	return tables.String() + "None at: " + strings.Join(quiet, ", ") + ".\n\n"
}

// Owners returns the tables of the times with two owners: the worst, the median, and in how many storms.
func (p *page) Owners() string {
	two := func(r *result) time.Duration { return r.two }
	return p.grids(func(r *result) bool { return r.two > least }, func(results []result) string {
		s := collect(results, two)
		if s.nonzero() == 0 {
			return "0"
		}
		return fmt.Sprintf("%s, %s; %d of %d", text(s.percentile(100)), text(s.percentile(50)), s.nonzero(), len(s))
	})
}

// Polls returns the tables of late polls.
func (p *page) Polls() string {
	return p.grids(func(r *result) bool { return r.late > 0 }, func(results []result) string {
		most, accepted := 0, 0
		for _, r := range results {
			most, accepted = max(most, r.late), max(accepted, r.accepted)
		}
		if accepted < most {
			return fmt.Sprintf("%d, %d accepted", most, accepted)
		}
		return fmt.Sprint(most)
	})
}

// Waits returns the table of waits and costs.
func (p *page) Waits() string {
	waits := func(of func(*result) []time.Duration) func([]result) string {
		return func(results []result) string {
			var all sample
			for i := range results {
				all = append(all, of(&results[i])...)
			}
			return fmt.Sprintf("%s, %s", text(all.percentile(50)), text(all.percentile(99)))
		}
	}
	return p.grid([]column{
		{"takeover", "crash", waits(func(r *result) []time.Duration { return r.takeovers })},
		{"handover", "stop", waits(func(r *result) []time.Duration { return r.handovers })},
		{"commands", calm, func(results []result) string {
			if results[0].commands == 0 {
				return "–" // they go to another store
			}
			return fmt.Sprintf("%.0f", results[0].commands)
		}},
		{"idle", "silence", func(results []result) string {
			return text(collect(results, func(r *result) time.Duration { return r.idle }).percentile(50))
		}},
		{"frozen belief", "freeze", func(results []result) string {
			return text(collect(results, func(r *result) time.Duration { return r.asleep }).percentile(100))
		}},
	})
}

func collect(results []result, get func(*result) time.Duration) (s sample) {
	for i := range results {
		s = append(s, get(&results[i]))
	}
	return s
}
