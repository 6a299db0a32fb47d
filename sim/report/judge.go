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
)

// Judge judges a saved run again, from its files alone: report.json and plan.json for what the run was, the history for what
// happened, logs for what the nodes told. It writes nothing. A plan or a scenario that is not the run's is ErrDamaged.
//
// Where the history is cut off or damaged, what stands before is judged, the error says which line and how many events
// were readable, and both are returned; a report without events (ErrNotFound, ErrEmpty) holds no verdict but unknown. Logs
// that are not those of the run (ErrLogs) accuse nobody; a run that broke off (ErrBrokeOff) is judged as far as it went, and one that ended
// without a verdict is not (ErrNoVerdict).
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
	plan, err := files.Plan()
	if err == nil {
		err = saved.Matches(files)
	}
	if err == nil && !saved.begun() && saved.Stats.HistorySHA256 == "" {
		err = differs(ErrDamaged, dir, history.FileName, "", "")
	}
	if err == nil && !slices.Equal(plan.Faults, p.Plan.Faults) {
		err = fmt.Errorf("%w: %s in %s has other faults than %s says", ErrDamaged, PlanName, dir, FileName)
	}
	if err != nil {
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
	logs := check.ReadLogs(dir, LogsName)
	var missing error
	if !saved.begun() {
		if missing = saved.logsMatch(dir, logs); missing != nil {
			logs = nil
		}
	}
	result, err := check.Judge(p, events, logs)
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

// begun reports whether the report was written when the run began, and by nobody since.
func (r Report) begun() bool { return len(r.Guarantees) == 0 }

// tapped reports whether what Redis granted is in the history, which nobody had the time to say.
func tapped(dir string) bool {
	for e, err := range history.Open(dir) {
		if err == nil && (e.Kind == history.RedisFence || e.Kind == history.RedisGranted) {
			return true
		}
	}
	return false
}

// ErrLogs: the nodes' logs are not those that the report was made of. What stands in the history was judged.
var ErrLogs = errors.New("report: lines of the nodes' logs are missing, added or changed")

// ErrBrokeOff: the simulator was ended before the run was. What there is of it was judged.
var ErrBrokeOff = errors.New("report: the run broke off and was not judged")

// ErrNoVerdict: the storm ended by an error of the harness, such as a machine without memory, and what it left may have holes.
var ErrNoVerdict = errors.New("report: the run ended without a verdict, and is not judged")

// noVerdictMax is how many bytes of the reason are shown.
const noVerdictMax = 1000

// ErrAltered: the history is not the one that the report was made of.
var ErrAltered = errors.New("report: the history was changed")

// whole yields the events, and at their end an error if they are not those that the report counted and summed up.
func whole(events iter.Seq2[history.Event, error], saved Stats, sum func() string) iter.Seq2[history.Event, error] {
	return func(yield func(history.Event, error) bool) {
		n, unsaved := int64(0), error(nil)
		for e, err := range events {
			if errors.Is(err, history.ErrUnfinished) { // nothing was cut off: all that there is was read
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

// Intact returns nil if the folder holds the history that r was made of, else what is wrong with it. r's run was judged, and its history
// has a sum.
func (r Report) Intact(dir string) error {
	events, sum := history.Summed(history.Open(dir))
	for _, err := range whole(events, r.Stats, sum) {
		if err != nil {
			return err
		}
	}
	return nil
}

// Readable reports whether the error of Judge leaves a judgement of what could be read. A history that is not the one of the
// run, or is damaged elsewhere than at its end, leaves none: its breaks may be those of its editor, or of the damage.
func Readable(err error) bool {
	return err == nil || errors.Is(err, history.ErrTruncated) || errors.Is(err, history.ErrUnfinished) ||
		errors.Is(err, ErrLogs) || errors.Is(err, ErrBrokeOff)
}
