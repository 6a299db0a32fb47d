package page

import (
	"encoding/xml"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/leasestorm/leasestorm/internal/plain"
	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/criteria"
	"github.com/leasestorm/leasestorm/sim/report"
)

type suite struct {
	XMLName  xml.Name   `xml:"testsuite"`
	Name     string     `xml:"name,attr"`
	Tests    int        `xml:"tests,attr"`
	Failures int        `xml:"failures,attr"`
	Errors   int        `xml:"errors,attr"`
	Skipped  int        `xml:"skipped,attr"`
	Time     string     `xml:"time,attr"`
	Cases    []testCase `xml:"testcase"`
}

type testCase struct {
	Name    string  `xml:"name,attr"`
	Class   string  `xml:"classname,attr"`
	Failure *reason `xml:"failure"`
	Error   *reason `xml:"error"`
	Skipped *reason `xml:"skipped"`
}

type reason struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// junit writes a test case per guarantee. A deciding unknown guarantee is an error. A guarantee that neither decides nor passed is
// skipped.
func junit(r report.Report) ([]byte, error) {
	s := suite{Name: shown(fmt.Sprintf("%s seed %d", r.Config.Scenario, r.Seed)), Tests: len(r.Guarantees),
		Time: fmt.Sprintf("%.3f", (time.Duration(r.Stats.WallMs) * time.Millisecond).Seconds())}
	decides := criteria.Decides(r.Params())
	for _, v := range r.Guarantees {
		c := testCase{Name: named(v.ID), Class: "guarantees"}
		why := &reason{fmt.Sprintf("%d %s, limit %d", v.Value, shown(v.Unit), v.Limit), plain.Text(plain.Cut(v.Detail, detailMax))}
		switch {
		case v.Verdict == check.Fail && r.Asked(v.ID):
			c.Failure = why
			s.Failures++
		case criteria.Thin(r.Params(), v):
			why.Message = fmt.Sprintf("exercised %s, at least %d is asked for", report.Times(v.Exercised), r.Config.Least)
			c.Error = why
			s.Errors++
		case v.Verdict != check.Pass && slices.Contains(decides, v.ID):
			why.Message = "unknown: not put to the test"
			c.Error = why
			s.Errors++
		case v.Verdict != check.Pass:
			why.Message = string(v.Verdict) + ", and does not decide"
			c.Skipped = why
			s.Skipped++
		}
		s.Cases = append(s.Cases, c)
	}
	text, err := xml.MarshalIndent(s, "", "  ")
	return append([]byte(xml.Header), append(text, '\n')...), err
}

// summaryMax is the maximum length of an explanation in bytes. A comment on a pull request holds 64 kB.
const summaryMax = 24_000

// summary describes the run as a comment on a pull request. page is the name of the page's file, "" for none.
func summary(in string, r report.Report, m *model, page string) ([]byte, error) {
	var b, failures strings.Builder
	if err := r.Failures(&plain.Writer{To: &failures}, in); err != nil {
		return nil, err
	}
	fmt.Fprintf(&b, "## %s: %s, seed %d\n\n", strings.ToUpper(string(r.Verdict)), cell(r.Config.Scenario), r.Seed)
	for _, p := range m.Head.Sentence {
		b.WriteString(cell(p.Text))
	}
	fmt.Fprintf(&b, " %s\n\n", cell(strings.TrimSpace(m.Head.Sub+" "+m.Head.Banner)))
	b.WriteString("| | promise | verdict | value | limit | unit | exercised |\n|---|---|---|---:|---:|---|---:|\n")
	glyphs := map[check.Outcome]string{check.Pass: "✓ pass", check.Fail: "✕ **fail**", check.Unknown: "? unknown"}
	for _, v := range r.Guarantees {
		value, limit := report.Cells(v)
		fmt.Fprintf(&b, "| %s | %s | %s%s | %s | %s | %s | %d |\n", cell(v.ID), check.Promise(v.ID), glyphs[v.Verdict], report.Stalled(v), value,
			limit, cell(v.Unit), v.Exercised)
	}
	if text := strings.TrimRight(plain.Cut(failures.String(), summaryMax), "\n"); text != "" {
		fence := "```"
		for strings.Contains(text, fence) {
			fence += "`"
		}
		fmt.Fprintf(&b, "\n%s\n%s\n%s\n", fence, strings.TrimLeft(text, "\n"), fence)
	}
	if page != "" {
		fmt.Fprintf(&b, "\n%s shows it.\n", page)
	}
	return []byte(b.String()), nil
}

// cell escapes a text for a table cell. Inserted characters without width prevent mentions (@name), references (#12) and links when the
// table is pasted into an issue.
func cell(s string) string { return escaped.Replace(plain.Text(plain.Cut(s, detailMax))) }

// nothing is a character without width, as an entity that is visible in the file.
const nothing = "&#8203;"

var escaped = strings.NewReplacer(`\`, `\\`, "|", `\|`, "<", "&lt;", "&", "&amp;", "`", "'", "[", `\[`, "*", `\*`, "_", `\_`,
	"@", "@"+nothing, "#", "#"+nothing, "://", ":"+nothing+"//", "www.", "www"+nothing+".", "GH-", "GH-"+nothing)
