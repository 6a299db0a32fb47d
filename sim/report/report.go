// Package report writes a run's results for people and tools: report.json, the table of verdicts, and the text of a failure. It starts no
// runs. It reads a run's folder and judges it again.
package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/leasestorm/leasestorm/internal/files"
	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/criteria"
	"github.com/leasestorm/leasestorm/sim/fault"
)

// Version is the format of report.json that this program writes and reads.
const Version = 2

// Names of files in a run's folder.
const (
	FileName = "report.json"
	PlanName = "plan.json"
	LogsName = "logs"

	ScenarioName = "scenario.yaml"
)

// FaultsMax is the largest number of faults of a run. A day with the shortest TTL has 240,000.
const FaultsMax = 250_000

// fileMax is the largest size of a report or a plan, in bytes. A fault takes 115 to 200.
const fileMax = 64 << 20

// fleetMax exceeds the nodes and the sessions of any run. Computations with it do not overflow.
const fleetMax = 1 << 24

// Errors of a saved report. Each is wrapped in a message with the file.
var (
	ErrNotFound = errors.New("report: no report.json")
	ErrEmpty    = errors.New("report: file is empty")
	ErrFormat   = errors.New("report: not a report of a version this program reads")
	ErrDamaged  = errors.New("report: damaged")
)

// Report is report.json, field by field.
type Report struct {
	Version    int             `json:"version"`
	Engine     string          `json:"engine"` // "real" or "virtual"
	Seed       uint64          `json:"seed"`
	Commit     string          `json:"commit"`
	Redis      Redis           `json:"redis"`
	Config     check.Params    `json:"config"` // without Plan, which is Faults
	Faults     []fault.Fault   `json:"faults"`
	Guarantees []check.Verdict `json:"guarantees"`
	Stats      Stats           `json:"stats"`
	Verdict    check.Outcome   `json:"verdict"`

	// NoVerdict is the reason why the storm ended without a verdict, or "". Such a run is not judged, because its history may have gaps.
	NoVerdict string `json:"noVerdict,omitempty"`

	// Sums maps the names of the run's other files (PlanName, ScenarioName, "logs/node-1.log") to their SHA-256 in hexadecimal.
	// Stats.HistorySHA256 is that of the history.
	Sums map[string]string `json:"sums"`

	// NodeCmd is the command of the run's nodes, NAME=value before the program; empty: this program's own node. A replay never starts it
	// by itself.
	NodeCmd []string `json:"nodeCmd,omitempty"`

	// Launcher is LaunchContainers for nodes in containers, "" for processes.
	Launcher string `json:"launcher,omitempty"`

	// ReplayFlags are the flags that "simulate replay" needs besides the folder. Only a run that has just ended has them, because a saved
	// folder's content never becomes a proposed command.
	ReplayFlags string `json:"-"`

	// Smallest means that simulate shrink made this run, and found no smaller one.
	Smallest bool `json:"-"`
}

// EngineLogs is the engine of an audit: no run, but the logs of a fleet.
const EngineLogs = "logs"

// LaunchContainers is the launcher of nodes in containers, as on the command line.
const LaunchContainers = "container"

// Redis is the Redis that a run used.
type Redis struct {
	Kind    string `json:"kind"` // "server", "container", "embedded", "model" or "url"
	Version string `json:"version"`
}

// Stats counts the events of a run.
type Stats struct {
	Polls         int64 `json:"polls"`
	Rejected      int64 `json:"rejected"`
	Acquires      int64 `json:"acquires"`
	Renewals      int64 `json:"renewals"`
	Losses        int64 `json:"losses"`
	Releases      int64 `json:"releases"`
	Events        int64 `json:"events"`
	LogEntries    int64 `json:"logEntries,omitempty"` // entries of the nodes that G12 needs
	RedisCommands int64 `json:"redisCommands"`
	StalledMs     int64 `json:"stalledMs"`
	WallMs        int64 `json:"wallMs"`
	VirtualMs     int64 `json:"virtualMs"`

	// HistorySHA256 is the SHA-256 of the history's uncompressed lines. Equal runs of the virtual engine have equal sums. On any engine,
	// another sum reveals a changed history.
	HistorySHA256 string `json:"historySha256,omitempty"`
}

// A word of a NodeCmd that stands for another kind of node than a program whose command follows.
const (
	LeaseNode = "@lease"    // this program's own node, which leaves its leases to an adapter, whose command follows
	GoNode    = "@go"       // in virtual time: a node that is built from the folder or file of a Go program
	GoLease   = "@lease-go" // in virtual time: as LeaseNode, with an adapter that is built from a folder or file
)

// NodeFlags are the flags that name the kinds of nodes, by their word; "" is that of a program.
var NodeFlags = map[string]string{"": "--node-cmd", LeaseNode: "--lease-cmd", GoNode: "--node-go", GoLease: "--lease-go"}

// NodeKind splits a NodeCmd into the word of its kind, "" for a program, and the other words.
func NodeKind(nodeCmd []string) (kind string, words []string) {
	for i, w := range nodeCmd {
		if w != "" && NodeFlags[w] != "" {
			return w, slices.Concat(nodeCmd[:i], nodeCmd[i+1:])
		}
	}
	return "", nodeCmd
}

// Meta holds the parts of a report that are neither parameters nor judgement.
type Meta struct {
	Engine        string
	Commit        string
	Redis         Redis
	RedisCommands int64
	Wall          time.Duration // real duration of the run
	Virtual       time.Duration // simulated time of the virtual engine
	SHA256        string        // of the history's lines
	Sums          map[string]string
	NodeCmd       []string
	Launcher      string
}

// New makes the report of a judged run. criteria.Deciding selects its criteria, criteria.Decide its verdict.
func New(m Meta, p check.Params, r check.Result) Report {
	faults := p.Plan.Faults
	if faults == nil {
		faults = []fault.Fault{} // a list, not null: tools iterate over it
	}
	p.Criteria = criteria.Deciding(p, r)
	return Report{
		Version: Version, Engine: m.Engine, Seed: p.Plan.Seed, Commit: m.Commit, Redis: m.Redis, Config: p, Faults: faults,
		Guarantees: r.Verdicts, Verdict: criteria.Decide(p, r), Sums: m.Sums, NodeCmd: m.NodeCmd, Launcher: m.Launcher,
		Stats: Stats{
			Polls: r.Stats.Polls, Rejected: r.Stats.Rejected, Acquires: r.Stats.Acquires, Renewals: r.Stats.Renewals,
			Losses: r.Stats.Losses, Releases: r.Stats.Releases, Events: r.Stats.Events,
			LogEntries: r.Stats.Entries, RedisCommands: m.RedisCommands,
			StalledMs: r.Stats.Stalled / int64(time.Millisecond), WallMs: m.Wall.Milliseconds(),
			VirtualMs: m.Virtual.Milliseconds(), HistorySHA256: m.SHA256,
		},
	}
}

// Params returns the parameters of the run with its plan, as check.Judge needs them.
func (r Report) Params() check.Params {
	p := r.Config
	p.Plan = fault.Plan{Version: fault.Version, Seed: r.Seed, Faults: r.Faults}
	return p
}

// JSON returns the text of report.json, with a newline at its end.
func (r Report) JSON() ([]byte, error) {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	return append(text, '\n'), nil
}

// Save writes report.json into the run's folder.
func (r Report) Save(dir string) error {
	text, err := r.JSON()
	if err != nil {
		return err
	}
	if err := files.Write(filepath.Join(dir, FileName), text); err != nil {
		return fmt.Errorf("report: cannot be saved: %w", err)
	}
	return nil
}

// Load reads report.json from a run's folder. Its errors are ErrNotFound, ErrEmpty, ErrFormat and ErrDamaged.
func Load(dir string) (Report, error) {
	file := filepath.Join(dir, FileName)
	text, err := files.Read(dir, FileName, fileMax)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Report{}, fmt.Errorf("%w in %s: is it the folder of one run?", ErrNotFound, dir)
	case err != nil:
		return Report{}, fmt.Errorf("report: cannot be read: %w", err)
	case len(text) == 0:
		return Report{}, fmt.Errorf("%w: %s", ErrEmpty, file)
	}
	var v struct {
		Version *int `json:"version"`
	}
	if json.Unmarshal(text, &v) == nil && v.Version != nil && *v.Version != Version { // another version may have unknown values
		return Report{}, fmt.Errorf("%w: %s has version %d, this program reads version %d", ErrFormat, file, *v.Version, Version)
	}
	var r Report
	if err := json.Unmarshal(text, &r); err != nil {
		return Report{}, fmt.Errorf("%w: %s: %w%s", ErrFormat, file, err, lineOf(text, err))
	}
	if r.Version != Version {
		return Report{}, fmt.Errorf("%w: %s has no version, this program reads version %d", ErrFormat, file, Version)
	}
	if r.Engine == EngineLogs {
		return Report{}, fmt.Errorf("report: %s is of an audit, not of a run: give simulate audit the same logs again", file)
	}
	if c := r.Config; c.Nodes < 1 || c.Sessions < 1 || c.TTL <= 0 || c.Renew <= 0 || c.Poll <= 0 || c.Discovery <= 0 {
		return Report{}, fmt.Errorf("%w: %s: config lacks nodes, sessions or timings, from which every limit is computed",
			ErrDamaged, file)
	}
	if c := r.Config; c.Nodes > fleetMax || c.Sessions > fleetMax {
		return Report{}, fmt.Errorf("%w: %s: config has %d nodes and %d sessions, more than any run: at most %d", ErrDamaged, file,
			c.Nodes, c.Sessions, fleetMax)
	}
	return r, nil
}

// lineOf returns the file's line with the error in brackets, or "" if it is unknown.
func lineOf(text []byte, err error) string {
	var syntax *json.SyntaxError
	if !errors.As(err, &syntax) || syntax.Offset > int64(len(text)) {
		return ""
	}
	return fmt.Sprintf(" (line %d)", 1+bytes.Count(text[:syntax.Offset], []byte("\n")))
}
