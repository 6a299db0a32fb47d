package report

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"path"
	"path/filepath"
	"slices"

	"github.com/leasestorm/leasestorm/internal/readfile"
	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/fault"
)

// summed are the files that every run has from its beginning, and whose sums stand in its report.
var summed = []string{PlanName, ScenarioName}

// LoadPlan reads a run's plan. Errors are those of fault.Load, and of a file that is not regular or larger than any plan.
func LoadPlan(dir string) (fault.Plan, error) {
	file := filepath.Join(dir, PlanName)
	if _, err := readfile.Read(file, fileMax); err != nil {
		return fault.Plan{}, fmt.Errorf("read plan: %w", err)
	}
	return fault.Load(file)
}

// SumFiles returns the SHA-256 in hexadecimal of a run's plan and scenario, by name.
func SumFiles(dir string) (map[string]string, error) {
	sums := map[string]string{}
	for _, name := range summed {
		sum, err := sumOf(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		sums[name] = sum
	}
	return sums, nil
}

func sumOf(file string) (string, error) {
	f, err := readfile.Open(file)
	if err != nil {
		return "", fmt.Errorf("report: sum: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("report: sum: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// LogSums adds the sums of the nodes' logs to those of the other files, as "logs/node-1.log".
func LogSums(sums map[string]string, logs *check.Logs) map[string]string {
	out := map[string]string{}
	maps.Copy(out, sums)
	for name, sum := range logs.Sums() {
		out[path.Join(LogsName, name)] = sum
	}
	return out
}

// Matches returns nil if the plan and the scenario in dir are those that the run had, else ErrDamaged with the file's name. Who
// edits a folder can edit the sums too: they show an accident or a careless hand, and are no signature.
func (r Report) Matches(dir string) error {
	sums, err := SumFiles(dir)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	for _, name := range summed {
		if sums[name] != r.Sums[name] {
			return differs(ErrDamaged, dir, name, sums[name], r.Sums[name])
		}
	}
	return nil
}

// logsMatch returns nil if the logs are those that the report was made of, else ErrLogs.
func (r Report) logsMatch(dir string, logs *check.Logs) error {
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
