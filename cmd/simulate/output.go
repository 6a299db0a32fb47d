package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/leasestorm/leasestorm/internal/plain"
	"github.com/leasestorm/leasestorm/internal/redisurl"
	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/page"
	"github.com/leasestorm/leasestorm/sim/report"
)

// output has the flags of what comes out of a run.
type output struct {
	report      string
	json, quiet bool
	noHTML      bool
	verbose     bool
	least       int // minimum of judged changes of each guarantee that decides
}

func (f *output) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.report, "report", "reports", "`DIR` in which the run gets a folder")
	fs.BoolVar(&f.json, "json", false, "print report.json and nothing else")
	fs.BoolVar(&f.noHTML, "no-html", false, "write no report.html")
	fs.BoolVar(&f.quiet, "quiet", false, "print the verdict only")
}

// registerJudged adds the flags of all commands that judge a run.
func (f *output) registerJudged(fs *pflag.FlagSet) {
	fs.BoolVar(&f.verbose, "verbose", false, "print the plan, every guarantee, and the events around each break")
	fs.IntVar(&f.least, "min-exercised", 0, "report unknown (exit code 2) if a criterion was exercised fewer than `N` times")
}

func (f *output) check(fs *pflag.FlagSet) error {
	var wrong []error
	if fs.Changed("min-exercised") && f.least < 1 {
		wrong = append(wrong, fmt.Errorf("--min-exercised %d: must be more than zero; without the flag, once is enough", f.least))
	}
	if f.report == "" {
		wrong = append(wrong, errors.New("--report is empty: give a folder, or leave it out for reports/"))
	}
	return errors.Join(wrong...)
}

// verdict prints the verdict of the run in the folder, and draws its page.
func (f *output) verdict(r report.Report, folder string, stdout, text io.Writer) error {
	if f.json {
		data, err := r.JSON()
		if err == nil {
			_, err = stdout.Write(data)
		}
		if err != nil {
			return fmt.Errorf("write the report: %w", err)
		}
	}
	fmt.Fprintln(text)
	sentence, drawn := f.draw(r, folder, text)
	word := plain.Word(folder)
	if err := f.judged(r, folder, text); err != nil {
		return fmt.Errorf("write the verdict: %w", err)
	}
	if !f.verbose {
		fmt.Fprintf(text, "  all of it:       simulate check %s --verbose\n", word)
	}
	if drawn && !f.noHTML {
		fmt.Fprintf(text, seeIt, word)
	}
	if sentence != "" && r.Verdict != check.Pass {
		fmt.Fprintf(text, "\n%s\n", sentence)
	}
	return nil
}

// judged prints the table and the breaks. With --verbose, it adds the reason and the events around each guarantee's first break.
func (f *output) judged(r report.Report, folder string, text io.Writer) error {
	if !f.verbose {
		return r.Brief(text, folder)
	}
	if err := errors.Join(r.Table(text), r.Failures(text, folder)); err != nil {
		return err
	}
	if r.Verdict == check.Pass {
		fmt.Fprint(text, r.Commands(folder))
	}
	dir := plain.Text(folder) // a newline in its name must not begin a line here
	fmt.Fprintf(text, "  files:           %s\n", filepath.Join(dir, "{"+strings.Join([]string{
		report.FileName, history.FileName, report.PlanName, report.ScenarioName, report.LogsName + "/",
	}, ",")+"}"))
	if sum := r.Stats.HistorySHA256; sum != "" {
		fmt.Fprintf(text, "  history sha256:  %s\n", sum)
	}
	return nil
}

const seeIt = "  see it:          simulate open %[1]s\n"

// draw writes the page and the summaries of the run into its folder, and returns the page's first sentence. An error becomes a note and
// does not change the verdict.
func (f *output) draw(r report.Report, folder string, text io.Writer) (sentence string, drawn bool) {
	note := func(err error) {
		if err != nil {
			fmt.Fprintf(text, "note: %v\n", redisurl.Line(err))
		}
	}
	sentence, err := page.Save(folder, r, !f.noHTML)
	note(err)
	return sentence, err == nil
}

// forPeople returns the writer for text. With --json, standard output contains nothing but JSON.
func (f *output) forPeople(stdout, stderr io.Writer) io.Writer {
	if f.json {
		return stderr
	}
	return stdout
}

func writeJSON(out io.Writer, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err == nil {
		_, err = out.Write(append(text, '\n'))
	}
	return err
}
