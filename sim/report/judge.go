package report

import (
	"errors"
	"path/filepath"

	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/history"
)

// Judge judges a saved run again, from its files alone: report.json for what the run was, the history for what happened,
// logs for what the nodes told. It writes nothing.
//
// Where the history is cut off or damaged, what stands before is judged, the error says which line and how many events
// were readable, and both are returned; a report without events (ErrNotFound, ErrEmpty) holds no verdict but unknown.
func Judge(dir string) (Report, check.Result, error) {
	saved, err := Load(dir)
	if err != nil {
		return Report{}, check.Result{}, err
	}
	p := saved.Params()
	events, sum := history.Open(dir), func() string { return "" }
	if saved.Stats.HistorySHA256 != "" {
		events, sum = history.Summed(events)
	}
	result, err := check.Judge(p, events, check.DirLogs(filepath.Join(dir, LogsName)))
	again := New(Meta{Engine: saved.Engine, Commit: saved.Commit, Redis: saved.Redis}, p, result)
	again.Stats.RedisCommands = saved.Stats.RedisCommands
	again.Stats.WallMs, again.Stats.VirtualMs = saved.Stats.WallMs, saved.Stats.VirtualMs
	again.Stats.HistorySHA256 = sum()
	return again, result, err
}

// Readable reports whether the error of Judge leaves a judgement of what could be read.
func Readable(err error) bool {
	return err == nil || errors.Is(err, history.ErrTruncated) || errors.Is(err, history.ErrMalformed) ||
		errors.Is(err, check.ErrUnordered)
}
