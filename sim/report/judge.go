package report

import (
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"slices"

	"github.com/leasestorm/leasestorm/internal/plain"
	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/nodelogs"
)

// Judge judges a saved run again, from report.json, plan.json, the history and the nodes' logs. It writes nothing.
//
// Errors with a judgement:
//   - If the history is truncated, the events before are judged. The error has the line and the number of readable events. A report
//     without events (history.ErrNotFound, history.ErrEmpty) has unknown verdicts only.
//   - ErrLogs: the logs are not those of the run, so G12 is unknown.
//   - ErrBrokeOff: the run broke off, and is judged as far as it went.
//
// Errors without a usable judgement (see Readable) are those of Load and:
//   - ErrNoVerdict: the run ended without a verdict.
//   - ErrDamaged: the plan or the scenario is not the run's.
//   - ErrAltered: the history is not the run's.
func Judge(dir string) (Report, check.Result, error) {
	saved, err := Load(dir)
	if err != nil {
		return Report{}, check.Result{}, err
	}
	if saved.NoVerdict != "" {
		return Report{}, check.Result{}, fmt.Errorf("%w: %s: %s", ErrNoVerdict, dir, plain.Text(plain.Cut(saved.NoVerdict, noVerdictMax)))
	}
	p := saved.Params()
	files, err := ReadFiles(dir)
	if err != nil {
		return Report{}, check.Result{}, err
	}
	if err := saved.intact(dir, files); err != nil {
		return Report{}, check.Result{}, err
	}
	events, sum := history.Open(dir), func() string { return "" }
	if saved.Stats.HistorySHA256 != "" {
		events, sum = history.Summed(events)
	}
	if saved.begun() {
		p.Tap = tapped(dir)
	} else {
		events = whole(events, saved.Stats, sum)
	}
	logs := nodelogs.Read(dir, LogsName)
	var missing error
	if !saved.begun() {
		if missing = saved.logsMatch(dir, logs); missing != nil {
			logs = nil
		}
	}
	result, err := check.Judge(p, events, logs)
	Explain(&result, history.Open(dir))
	switch {
	case err != nil:
	case saved.begun():
		err = fmt.Errorf("%w; the nodes' logs are in %s", ErrBrokeOff, filepath.Join(dir, LogsName))
	default:
		err = missing
	}
	again := New(Meta{
		Engine: saved.Engine, Commit: saved.Commit, Redis: saved.Redis, Sums: saved.Sums, NodeCmd: saved.NodeCmd, Launcher: saved.Launcher,
	}, p, result)
	again.Stats.RedisCommands = saved.Stats.RedisCommands
	again.Stats.WallMs, again.Stats.VirtualMs = saved.Stats.WallMs, saved.Stats.VirtualMs
	again.Stats.HistorySHA256 = sum()
	return again, result, err
}

// intact returns why the folder is not the one that the report was saved in.
func (r Report) intact(dir string, files Files) error {
	plan, err := files.Plan()
	if err == nil {
		err = r.Matches(files)
	}
	switch {
	case err != nil:
		return err
	case !r.begun() && r.Stats.HistorySHA256 == "":
		return differs(ErrDamaged, dir, history.FileName, "", "")
	case !slices.Equal(plan.Faults, r.Params().Plan.Faults):
		return fmt.Errorf("%w: %s in %s has other faults than %s says", ErrDamaged, PlanName, dir, FileName)
	}
	return nil
}

// begun reports whether the report is still the one from the start of the run.
func (r Report) begun() bool { return len(r.Guarantees) == 0 }

// tapped reports whether the history has the grants of Redis. The report of a run that broke off does not say.
func tapped(dir string) bool {
	for e, err := range history.Open(dir) {
		if err == nil && (e.Kind == history.RedisFence || e.Kind == history.RedisGranted) {
			return true
		}
	}
	return false
}

// ErrBrokeOff reports that the simulator ended before the run did. Judge has judged the events so far.
var ErrBrokeOff = errors.New("report: the run broke off and was not judged")

// ErrNoVerdict reports a storm that ended with an error of the harness, such as a lack of memory. Its history may have gaps.
var ErrNoVerdict = errors.New("report: the run ended without a verdict, and is not judged")

// noVerdictMax is the number of bytes shown of the reason.
const noVerdictMax = 1000

// ErrAltered reports a history other than the one that the report was made from.
var ErrAltered = errors.New("report: the history was changed")

// whole yields the events, and at their end an error if their number or sum differs from the report's.
func whole(events iter.Seq2[history.Event, error], saved Stats, sum func() string) iter.Seq2[history.Event, error] {
	return func(yield func(history.Event, error) bool) {
		n, unsaved := int64(0), error(nil)
		for e, err := range events {
			if errors.Is(err, history.ErrUnfinished) { // the journal was read to its end, so nothing is missing
				unsaved = err
				break
			}
			if !yield(e, err) || err != nil {
				return
			}
			n++
		}
		switch {
		case n != saved.Events:
			yield(history.Event{}, fmt.Errorf("%w: it holds %d events, %s was made of %d: lines are missing or added", ErrAltered, n,
				FileName, saved.Events))
		case saved.HistorySHA256 != "" && sum() != saved.HistorySHA256:
			yield(history.Event{}, fmt.Errorf("%w: its sha256 is %s, %s was made of %s", ErrAltered, sum(), FileName,
				saved.HistorySHA256))
		case unsaved != nil:
			yield(history.Event{}, unsaved)
		}
	}
}

// Intact returns nil if the folder holds the history that r was made from. r must be of a judged run and have its history's sum.
func (r Report) Intact(dir string) error {
	events, sum := history.Summed(history.Open(dir))
	for _, err := range whole(events, r.Stats, sum) {
		if err != nil {
			return err
		}
	}
	return nil
}

// Readable reports whether Judge returned a usable judgement with the error. A history of another run, or one damaged before its end,
// gives none, because its breaks may come from an edit or from the damage.
func Readable(err error) bool {
	return err == nil || errors.Is(err, history.ErrTruncated) || errors.Is(err, history.ErrUnfinished) ||
		errors.Is(err, ErrLogs) || errors.Is(err, ErrBrokeOff)
}
