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
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/leasestorm/leasestorm/internal/files"
	"github.com/leasestorm/leasestorm/sim/fault"
)

// ScenarioVersion is the format that this program writes, and the newest that it reads. Only a change of a key's meaning raises it.
const ScenarioVersion = 1

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
	tree, y, err := decode(data)
	switch {
	case errors.Is(err, io.EOF):
		return Scenario{}, fmt.Errorf("%w: scenario %s is empty, or its first document: write at least \"nodes: 10\"", ErrInvalid, file)
	case err != nil:
		return Scenario{}, syntax(file, err)
	}
	s := y.scenario()
	s.source, s.path = tree, file
	if s.Name == "" {
		s.Name = nameOf(file)
	}
	if err := y.check(); err != nil {
		return Scenario{}, s.locate(err)
	}
	return s, nil
}

// decode parses the file. The YAML library panics on some invalid texts; decode reports these panics as errors.
func decode(data []byte) (tree *ast.File, y scenarioYAML, err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("not YAML that can be read")
		}
	}()
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // some editors begin a file with a byte order mark
	if tree, err = parser.ParseBytes(data, 0); err != nil {
		return nil, y, err
	}
	var v struct {
		Version int `yaml:"version"`
	}
	if yaml.Unmarshal(data, &v) == nil && (v.Version < 0 || v.Version > ScenarioVersion) { // checked before unknown keys
		return nil, y, fmt.Errorf("it has version %d, this program reads version %d", v.Version, ScenarioVersion)
	}
	if err := cmp.Or(alone(tree), octal(tree)); err != nil {
		return nil, y, err
	}
	err = yaml.NewDecoder(bytes.NewReader(data), yaml.Strict()).Decode(&y)
	return tree, y, err
}

// octal refuses a number with a leading zero, which YAML readers interpret as octal or as decimal.
func octal(tree *ast.File) error {
	for _, d := range tree.Docs {
		if d.Body == nil {
			continue
		}
		for _, n := range ast.Filter(ast.IntegerType, d.Body) {
			if at := n.GetToken(); at.Type == token.OctetIntegerType {
				return &yaml.SyntaxError{Message: at.Value + ": leave out the leading zero, which makes it octal to some readers", Token: at}
			}
		}
	}
	return nil
}

// alone refuses a second document, even an empty one, which would be ignored.
func alone(tree *ast.File) error {
	first := true
	for _, d := range tree.Docs {
		if _, directive := d.Body.(*ast.DirectiveNode); directive {
			continue
		}
		if !first {
			at := d.Start // nil after a "..."
			if at == nil {
				at = d.Body.GetToken()
			}
			return &yaml.SyntaxError{Message: "a second document begins here: a file is one scenario", Token: at}
		}
		first = false
	}
	return nil
}

// check refuses unknown names, and zeros, which the conversion would treat as absent. Resolve checks the rest.
func (y scenarioYAML) check() error {
	zero := func(key string, is bool) error {
		if is {
			return wrong(key, "must be more than zero; leave it out for the default")
		}
		return nil
	}
	t := y.Timings
	if t == nil {
		t = &timingsYAML{}
	}
	err := cmp.Or(
		zero("nodes", y.Nodes != nil && *y.Nodes <= 0), zero("sessions", y.Sessions != nil && *y.Sessions <= 0),
		zero("speed", y.Speed != nil && !(*y.Speed > 0)), zero("duration", y.Duration != nil && *y.Duration <= 0),
	)
	for _, d := range []struct {
		key string
		is  *time.Duration
	}{
		{"ttl", t.TTL}, {"renew", t.Renew}, {"heartbeat", t.Heartbeat}, {"discovery", t.Discovery}, {"poll", t.Poll},
		{"pollTimeout", t.PollTimeout}, {"serve", t.Serve},
	} {
		err = cmp.Or(err, zero("timings."+d.key, d.is != nil && *d.is <= 0))
	}
	for i, f := range y.Plan { // a flag may still change the engine
		if e := f.Kind.AvailableOn(y.Engine != EngineReal); err == nil && e != nil {
			err = wrong(fmt.Sprintf("plan[%d].kind", i), "%w", e)
		}
	}
	if i, e := fault.CheckKinds(kindsOf(y.Faults), y.Engine != EngineReal, nil); err == nil && e != nil {
		err = wrong(fmt.Sprintf("faults[%d]", i), "%w", e)
	}
	return err
}

func (y scenarioYAML) scenario() Scenario {
	s := Scenario{
		Name: y.Name, Description: y.Description, System: y.System, Nodes: deref(y.Nodes), Sessions: deref(y.Sessions),
		Speed: deref(y.Speed), Duration: deref(y.Duration), Seed: deref(y.Seed), LongPolls: y.LongPolls, APILeases: y.APILeases,
		Criteria: y.Criteria, NodeCmd: y.NodeCmd, Engine: y.Engine, Topology: y.Topology, Replicas: y.Replicas, Virtual: deref(y.Virtual),
		Plan: y.Plan,
	}
	s.Faults = kindsOf(y.Faults)
	if t := y.Timings; t != nil {
		s.Timings = Timings{
			TTL: deref(t.TTL), Renew: deref(t.Renew), Heartbeat: deref(t.Heartbeat), Discovery: deref(t.Discovery),
			Poll: deref(t.Poll), PollTimeout: deref(t.PollTimeout), Serve: deref(t.Serve),
		}
	}
	return s
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

func syntax(file string, err error) error {
	var y yaml.Error
	if !errors.As(err, &y) {
		line, _, _ := strings.Cut(err.Error(), "\n")
		return fmt.Errorf("%w: %s: %s", ErrInvalid, file, line)
	}
	message := y.GetMessage()
	var typed *yaml.TypeError
	var large *yaml.OverflowError
	switch {
	case errors.As(err, &typed):
		message = mistyped(typed)
	case errors.As(err, &large):
		message = large.SrcNum + " is out of range"
	}
	return fmt.Errorf("%w: %s: %s", ErrInvalid, position(file, y.GetToken()), message)
}

// mistyped names the kind of value that a key needs, without Go's type names.
func mistyped(e *yaml.TypeError) string {
	wants := "another kind of value"
	switch t := e.DstType; {
	case t == reflect.TypeFor[time.Duration]():
		wants = "a duration with its unit, such as 30s or 500ms"
	case t.Kind() == reflect.Bool:
		wants = "true or false"
	case t.Kind() == reflect.Float64:
		wants = "a number"
	case t.Kind() == reflect.Int, t.Kind() == reflect.Int64, t.Kind() == reflect.Uint64:
		wants = "a whole number"
	case t.Kind() == reflect.String:
		wants = "a text"
	case t.Kind() == reflect.Slice:
		wants = "a list"
	case t.Kind() == reflect.Struct:
		wants = "keys with values"
	}
	if e.Token == nil {
		return "this needs " + wants
	}
	return fmt.Sprintf("%q: this needs %s", e.Token.Value, wants)
}

func position(file string, t *token.Token) string {
	if t == nil || t.Position == nil {
		return file
	}
	return fmt.Sprintf("%s:%d:%d", file, t.Position.Line, t.Position.Column)
}

// locate adds file, line and column to an error about a key of the scenario's file.
func (s Scenario) locate(err error) error {
	var k *KeyError
	if s.source == nil || !errors.As(err, &k) {
		return err
	}
	at, perr := yaml.PathString("$." + k.Key)
	if perr != nil {
		return err
	}
	node, perr := at.FilterFile(s.source)
	if perr != nil || node == nil {
		return err // a default or a flag is wrong
	}
	return fmt.Errorf("%s: %w", position(s.path, node.GetToken()), err)
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
		Timings: &timingsYAML{
			TTL: &c.TTL, Renew: &c.Renew, Heartbeat: &c.Heartbeat, Discovery: &c.Discovery, Poll: &c.Poll,
			PollTimeout: &c.PollTimeout, Serve: &c.Serve,
		},
	}
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
	t := s.Timings
	y := givenYAML{scenarioYAML: scenarioYAML{
		Name: s.Name, Engine: s.Engine, System: s.System, Nodes: some(s.Nodes), Sessions: some(s.Sessions), Speed: some(s.Speed),
		Duration: some(s.Duration), Seed: some(s.Seed), LongPolls: s.LongPolls, APILeases: s.APILeases, Criteria: s.Criteria,
		NodeCmd: s.NodeCmd, Virtual: some(s.Virtual), Topology: s.Topology, Replicas: s.Replicas,
		Plan: s.Plan,
	}}
	if t != (Timings{}) {
		y.Timings = &timingsYAML{
			TTL: some(t.TTL), Renew: some(t.Renew), Heartbeat: some(t.Heartbeat), Discovery: some(t.Discovery), Poll: some(t.Poll),
			PollTimeout: some(t.PollTimeout), Serve: some(t.Serve),
		}
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
