package report

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"

	"github.com/leasestorm/leasestorm/internal/files"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/nodelogs"
)

// ErrLogs reports logs other than those that the report was made from. Judge has judged the history.
var ErrLogs = errors.New("report: lines of the nodes' logs are missing, added or changed")

// summed lists the files that every run has from its start, and whose sums are in its report.
var summed = []string{PlanName, ScenarioName}

// ScenarioMax is the largest size of a scenario file in bytes.
const ScenarioMax = 64 << 10

// Files holds a run's plan and scenario as read once, so that the checked bytes are the used ones, even if the files change meanwhile.
type Files struct {
	dir            string
	plan, scenario []byte
}

// ReadFiles reads a run's plan and scenario. It returns ErrDamaged with the name of a missing, irregular or too large file.
func ReadFiles(dir string) (Files, error) {
	plan, err := files.Read(dir, PlanName, fileMax)
	var scenario []byte
	if err == nil {
		scenario, err = files.Read(dir, ScenarioName, ScenarioMax)
	}
	if err != nil {
		return Files{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return Files{dir, plan, scenario}, nil
}

// Scenario returns the text of the scenario. The caller must not change it.
func (f Files) Scenario() []byte { return f.scenario }

// Plan parses the run's plan. Its errors are those of fault.Parse.
func (f Files) Plan() (fault.Plan, error) { return fault.Parse(filepath.Join(f.dir, PlanName), f.plan) }

// Sums returns the SHA-256 of plan and scenario, in hexadecimal, by name.
func (f Files) Sums() map[string]string {
	hexed := func(text []byte) string {
		sum := sha256.Sum256(text)
		return hex.EncodeToString(sum[:])
	}
	return map[string]string{PlanName: hexed(f.plan), ScenarioName: hexed(f.scenario)}
}

// LogSums returns sums with the sums of the nodes' logs added, under names like "logs/node-1.log".
func LogSums(sums map[string]string, logs *nodelogs.Logs) map[string]string {
	out := map[string]string{}
	maps.Copy(out, sums)
	for name, sum := range logs.Sums() {
		out[path.Join(LogsName, name)] = sum
	}
	return out
}

// Matches returns nil if the plan and the scenario are those of the run, else ErrDamaged with the file's name. The sums detect accidents
// only, because an editor of the folder can change the sums too.
func (r Report) Matches(f Files) error {
	sums := f.Sums()
	for _, name := range summed {
		if sums[name] != r.Sums[name] {
			return differs(ErrDamaged, f.dir, name, sums[name], r.Sums[name])
		}
	}
	return nil
}

// logsMatch returns nil if the report was made from these logs, else ErrLogs.
func (r Report) logsMatch(dir string, logs *nodelogs.Logs) error {
	if err := logs.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrLogs, err)
	}
	if made := r.Stats.LogEntries; made > 0 && logs.Entries() != made {
		return fmt.Errorf("%w: those in %s hold %d entries, %s was made of %d", ErrLogs, filepath.Join(dir, LogsName),
			logs.Entries(), FileName, made)
	}
	was := maps.Clone(r.Sums)
	for _, name := range summed {
		delete(was, name)
	}
	is := LogSums(nil, logs)
	for _, name := range slices.Sorted(maps.Keys(is)) {
		if is[name] != was[name] {
			return differs(ErrLogs, dir, name, is[name], was[name])
		}
		delete(was, name)
	}
	for _, name := range slices.Sorted(maps.Keys(was)) {
		return fmt.Errorf("%w: %s is not there", ErrLogs, filepath.Join(dir, name))
	}
	return nil
}

func differs(kind error, dir, name, is, was string) error {
	if was == "" {
		return fmt.Errorf("%w: %s has no sum of %s", kind, filepath.Join(dir, FileName), name)
	}
	return fmt.Errorf("%w: %s was changed: its sha256 is %s, %s has %s", kind, filepath.Join(dir, name), is, FileName, was)
}
