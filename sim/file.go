package sim

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/leasestorm/leasestorm/internal/files"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/report"
)

// scenarioYAML is a scenario file. Pointers distinguish absent values from zeros.
type scenarioYAML struct {
	Version     int            `yaml:"version,omitempty"`
	Name        string         `yaml:"name,omitempty"`
	Description string         `yaml:"description,omitempty"`
	Engine      string         `yaml:"engine,omitempty"`
	Topology    string         `yaml:"topology,omitempty"`
	Replicas    *int           `yaml:"replicas,omitempty"`
	System      string         `yaml:"system,omitempty"`
	Nodes       *int           `yaml:"nodes,omitempty"`
	Sessions    *int           `yaml:"sessions,omitempty"`
	Speed       *float64       `yaml:"speed,omitempty"`
	Duration    *time.Duration `yaml:"duration,omitempty"`
	Seed        *uint64        `yaml:"seed,omitempty"`
	LongPolls   bool           `yaml:"longPolls,omitempty"`
	APILeases   string         `yaml:"apiLeases,omitempty"`
	Timings     *timingsYAML   `yaml:"timings,omitempty"`
	Faults      []string       `yaml:"faults,omitempty"`
	Plan        []fault.Fault  `yaml:"plan,omitempty"`
	Criteria    []string       `yaml:"criteria,omitempty"`
	NodeCmd     []string       `yaml:"nodeCmd,omitempty"`
	LeaseCmd    []string       `yaml:"leaseCmd,omitempty"`
	NodeGo      []string       `yaml:"nodeGo,omitempty"`
	LeaseGo     []string       `yaml:"leaseGo,omitempty"`
	Virtual     *Virtual       `yaml:"virtual,omitempty"`
}

type timingsYAML struct {
	TTL         *time.Duration `yaml:"ttl,omitempty"`
	Renew       *time.Duration `yaml:"renew,omitempty"`
	Heartbeat   *time.Duration `yaml:"heartbeat,omitempty"`
	Discovery   *time.Duration `yaml:"discovery,omitempty"`
	Poll        *time.Duration `yaml:"poll,omitempty"`
	PollTimeout *time.Duration `yaml:"pollTimeout,omitempty"`
	Serve       *time.Duration `yaml:"serve,omitempty"`
}

// timingYAML is one duration: its key, its place in the file, and its place in Timings.
type timingYAML struct {
	key   string
	given **time.Duration
	value *time.Duration
}

// fields returns the durations of the file and of t side by side; none of a nil file.
func (y *timingsYAML) fields(t *Timings) []timingYAML {
	if y == nil {
		return nil
	}
	return []timingYAML{
		{"ttl", &y.TTL, &t.TTL}, {"renew", &y.Renew, &t.Renew}, {"heartbeat", &y.Heartbeat, &t.Heartbeat},
		{"discovery", &y.Discovery, &t.Discovery}, {"poll", &y.Poll, &t.Poll}, {"pollTimeout", &y.PollTimeout, &t.PollTimeout},
		{"serve", &y.Serve, &t.Serve},
	}
}

func timingsOf(t Timings) *timingsYAML {
	y := &timingsYAML{}
	for _, f := range y.fields(&t) {
		*f.given = some(*f.value)
	}
	return y
}

//go:embed builtin/*.yaml
var builtin embed.FS

// Builtin returns the built-in scenarios, sorted by name.
func Builtin() []Scenario {
	entries, err := fs.ReadDir(builtin, "builtin")
	if err != nil {
		panic(err) // the embedded folder always exists
	}
	var out []Scenario
	for _, e := range entries {
		s, err := load("builtin/"+e.Name(), builtin.ReadFile)
		if err != nil {
			panic(err) // a test reads them all
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b Scenario) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Load returns the built-in scenario of that name, or reads a scenario file. An error wraps ErrInvalid and begins with the file and, if
// known, its line and column.
func Load(nameOrFile string) (Scenario, error) {
	if nameForm.MatchString(nameOrFile) {
		for _, s := range Builtin() {
			if s.Name == nameOrFile {
				return s, nil
			}
		}
	}
	s, err := load(nameOrFile, os.ReadFile)
	if errors.Is(err, fs.ErrNotExist) {
		var names []string
		for _, s := range Builtin() {
			names = append(names, s.Name)
		}
		return Scenario{}, fmt.Errorf("%w: scenario %s: no such file, and no built-in scenario: those are %s",
			ErrInvalid, nameOrFile, strings.Join(names, ", "))
	}
	return s, err
}

func load(file string, read func(string) ([]byte, error)) (Scenario, error) {
	data, err := read(file)
	if err != nil {
		return Scenario{}, fmt.Errorf("%w: scenario: %w", ErrInvalid, err)
	}
	var y scenarioYAML
	tree, err := decode(data, &y)
	switch {
	case errors.Is(err, io.EOF):
		return Scenario{}, fmt.Errorf("%w: scenario %s is empty, or its first document: write at least \"nodes: 10\"", ErrInvalid, file)
	case err != nil:
		return Scenario{}, syntax(file, err)
	}
	s := y.scenario()
	s.source = &source{path: file, tree: tree}
	if s.Name == "" {
		s.Name = nameOf(file)
	}
	if err := y.check(); err != nil {
		return Scenario{}, s.source.locate(err)
	}
	return s, nil
}

// check refuses unknown names, and zeros, which the conversion would treat as absent. Resolve checks the rest.
func (y scenarioYAML) check() error {
	zero := func(key string, is bool) error {
		if is {
			return wrong(key, "must be more than zero; leave it out for the default")
		}
		return nil
	}
	err := cmp.Or(
		zero("nodes", y.Nodes != nil && *y.Nodes <= 0), zero("sessions", y.Sessions != nil && *y.Sessions <= 0),
		zero("speed", y.Speed != nil && !(*y.Speed > 0)), zero("duration", y.Duration != nil && *y.Duration <= 0),
	)
	for _, t := range y.Timings.fields(&Timings{}) {
		err = cmp.Or(err, zero("timings."+t.key, *t.given != nil && **t.given <= 0))
	}
	named := ""
	for _, c := range y.commands() {
		if len(*c.words) == 0 {
			continue
		}
		if err == nil && named != "" {
			err = wrong(c.key, "%s names the node already: leave one of them out", named)
		}
		named = c.key
	}
	return cmp.Or(err, y.checkKinds())
}

// checkKinds refuses unknown kinds of faults.
func (y scenarioYAML) checkKinds() error {
	for i, f := range y.Plan { // a flag may still change the engine
		if err := f.Kind.AvailableOn(y.Engine != EngineReal); err != nil {
			return wrong(fmt.Sprintf("plan[%d].kind", i), "%w", err)
		}
	}
	if i, err := fault.CheckKinds(kindsOf(y.Faults), y.Engine != EngineReal, nil); err != nil {
		return wrong(fmt.Sprintf("faults[%d]", i), "%w", err)
	}
	return nil
}

func (y scenarioYAML) scenario() Scenario {
	s := Scenario{
		Name: y.Name, Description: y.Description, System: y.System, Nodes: deref(y.Nodes), Sessions: deref(y.Sessions),
		Speed: deref(y.Speed), Duration: deref(y.Duration), Seed: deref(y.Seed), LongPolls: y.LongPolls, APILeases: y.APILeases,
		Criteria: y.Criteria, NodeCmd: y.NodeCmd, Engine: y.Engine, Topology: y.Topology, Replicas: y.Replicas, Virtual: deref(y.Virtual),
		Plan: y.Plan,
	}
	for _, c := range y.commands() {
		if c.kind != "" && len(*c.words) > 0 {
			s.NodeCmd = NodesOf(c.kind, *c.words)
		}
	}
	s.Faults = kindsOf(y.Faults)
	for _, t := range y.Timings.fields(&s.Timings) {
		*t.value = deref(*t.given)
	}
	return s
}

// commandYAML is a key that names the nodes, and their kind.
type commandYAML struct {
	kind, key string
	words     *[]string
}

func (y *scenarioYAML) commands() []commandYAML {
	return []commandYAML{
		{"", "nodeCmd", &y.NodeCmd}, {report.LeaseNode, "leaseCmd", &y.LeaseCmd}, {report.GoNode, "nodeGo", &y.NodeGo},
		{report.GoLease, "leaseGo", &y.LeaseGo},
	}
}

// splitNodeCmd moves the words of NodeCmd to the key of their kind.
func (y *scenarioYAML) splitNodeCmd() {
	kind, words := KindOf(y.NodeCmd)
	y.NodeCmd = nil
	for _, c := range y.commands() {
		if c.kind == kind {
			*c.words = words
		}
	}
}

func kindsOf(names []string) (kinds []fault.Kind) {
	for _, name := range names {
		kinds = append(kinds, fault.Kind(name))
	}
	return kinds
}

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

func nameOf(file string) string {
	base := strings.ToLower(strings.TrimSuffix(path.Base(file), path.Ext(file)))
	name := strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, base), "-")
	return name[:min(len(name), 64)]
}

// Save writes a scenario file that repeats the run. It contains the run's durations at speed 1. The plan is in plan.json.
func (c Config) Save(file string) error {
	y := c.yaml()
	head := fmt.Sprintf("# As run at speed %v: the durations below are those of the run, hence speed 1.\n", c.Speed)
	return y.save(file, head)
}

func (c Config) yaml() scenarioYAML {
	one := 1.0
	total := c.Duration()
	y := scenarioYAML{
		Version: ScenarioVersion, Name: c.Name, System: c.System, Nodes: &c.Nodes, Sessions: &c.Sessions, Speed: &one, Duration: &total,
		Seed: &c.Seed, LongPolls: c.LongPolls, Criteria: c.Criteria, NodeCmd: c.NodeCmd, Virtual: some(c.Virtual),
		Timings: timingsOf(c.Timings),
	}
	y.splitNodeCmd()
	y.APILeases = c.APILeases
	if c.onVirtual() {
		y.Engine = c.Engine
	}
	y.Topology, y.Replicas = c.servers()
	for _, k := range c.Faults {
		y.Faults = append(y.Faults, string(k))
	}
	return y
}

type givenYAML struct {
	scenarioYAML `yaml:",inline"`

	Fixed *fixedYAML `yaml:"fixed,omitempty"`
}

type fixedYAML struct {
	Duration time.Duration `yaml:"duration,omitempty"`
	TTL      time.Duration `yaml:"ttl,omitempty"`
	Renew    time.Duration `yaml:"renew,omitempty"`
	Poll     time.Duration `yaml:"poll,omitempty"`
}

// Given returns the scenario's explicit values as JSON, with the keys of a scenario file.
func (s Scenario) Given() (json.RawMessage, error) {
	y := givenYAML{scenarioYAML: scenarioYAML{
		Name: s.Name, Engine: s.Engine, System: s.System, Nodes: some(s.Nodes), Sessions: some(s.Sessions), Speed: some(s.Speed),
		Duration: some(s.Duration), Seed: some(s.Seed), LongPolls: s.LongPolls, APILeases: s.APILeases, Criteria: s.Criteria,
		NodeCmd: s.NodeCmd, Virtual: some(s.Virtual), Topology: s.Topology, Replicas: s.Replicas,
		Plan: s.Plan,
	}}
	y.splitNodeCmd()
	if s.Timings != (Timings{}) {
		y.Timings = timingsOf(s.Timings)
	}
	if s.Fixed != (Fixed{}) {
		fixed := fixedYAML(s.Fixed)
		y.Fixed = &fixed
	}
	for _, k := range s.Faults {
		y.Faults = append(y.Faults, string(k))
	}
	text, err := yaml.Marshal(y)
	if err == nil {
		text, err = yaml.YAMLToJSON(text)
	}
	var out bytes.Buffer
	if err == nil {
		err = json.Compact(&out, text)
	}
	if err != nil {
		return nil, fmt.Errorf("encode scenario: %w", err)
	}
	return out.Bytes(), nil
}

func some[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

func (y scenarioYAML) save(file, head string) error {
	data, err := yaml.Marshal(y)
	if err != nil {
		return fmt.Errorf("encode scenario: %w", err)
	}
	if err := files.Write(file, append([]byte(head), data...)); err != nil {
		return fmt.Errorf("save scenario: %w", err)
	}
	return nil
}
