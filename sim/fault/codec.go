package fault

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/leasestorm/leasestorm/internal/files"
)

// Version is the plan format that this program writes and reads.
const Version = 1

type faultJSON struct {
	AtMs     int64  `json:"atMs"`
	Kind     Kind   `json:"kind"`
	Target   string `json:"target,omitempty"`
	ForMs    int64  `json:"forMs"`
	Ms       int64  `json:"ms,omitempty"`
	JitterMs int64  `json:"jitterMs,omitempty"`
	KBps     int64  `json:"kbps,omitempty"`
	Deny     string `json:"deny,omitempty"`
	Lone     bool   `json:"lone,omitempty"`
}

// MarshalJSON encodes the fault as in report.json. It rounds times down to milliseconds, of which drawn plans consist.
func (f Fault) MarshalJSON() ([]byte, error) {
	return json.Marshal(faultJSON{
		AtMs: f.At.Milliseconds(), Kind: f.Kind, Target: f.Target, ForMs: f.For.Milliseconds(),
		Ms: f.Ms, JitterMs: f.Jitter, KBps: f.KBps, Deny: f.Deny, Lone: f.Lone,
	})
}

// UnmarshalJSON decodes a fault. It refuses unknown fields (ErrFormat) and unknown kinds (ErrUnknownKind). Plan.Validate checks the rest.
func (f *Fault) UnmarshalJSON(data []byte) error {
	var j faultJSON
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&j); err != nil {
		return fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if !j.Kind.Known() {
		return j.Kind.Available()
	}
	const msMax = int64(1<<63-1) / int64(time.Millisecond)
	if j.AtMs > msMax || j.ForMs > msMax || j.AtMs < -msMax || j.ForMs < -msMax {
		return fmt.Errorf("%w: atMs %d or forMs %d is out of range", ErrFormat, j.AtMs, j.ForMs)
	}
	*f = Fault{
		At: time.Duration(j.AtMs) * time.Millisecond, Kind: j.Kind, Target: j.Target,
		For: time.Duration(j.ForMs) * time.Millisecond, Ms: j.Ms, Jitter: j.JitterMs, KBps: j.KBps, Deny: j.Deny, Lone: j.Lone,
	}
	return nil
}

type planJSON struct {
	Version int     `json:"version"`
	Seed    uint64  `json:"seed"`
	Faults  []Fault `json:"faults"`
}

// MarshalJSON encodes the plan as plan.json.
func (p Plan) MarshalJSON() ([]byte, error) {
	out := planJSON(p)
	if out.Version == 0 {
		out.Version = Version
	}
	if out.Faults == nil {
		out.Faults = []Fault{} // tools iterate over a list, not over null
	}
	return json.Marshal(out)
}

// UnmarshalJSON decodes plan.json. It refuses any version but Version with ErrFormat.
func (p *Plan) UnmarshalJSON(data []byte) error {
	var v struct {
		Version *int `json:"version"`
	}
	if json.Unmarshal(data, &v) == nil && v.Version != nil && *v.Version != Version { // before unknown fields of that version
		return fmt.Errorf("%w: it has version %d, this program reads version %d", ErrFormat, *v.Version, Version)
	}
	var j planJSON
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&j); err != nil {
		return fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if j.Version != Version {
		return fmt.Errorf("%w: it has no version, this program reads version %d", ErrFormat, Version)
	}
	*p = Plan(j)
	return nil
}

// Save writes the plan to a file, indented, and replaces an existing file.
func (p Plan) Save(path string) error {
	data, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return fmt.Errorf("encode plan: %w", err)
	}
	if err := files.Write(path, append(data, '\n')); err != nil {
		return fmt.Errorf("save plan: %w", err)
	}
	return nil
}

// Parse decodes a plan that Save wrote. The error names path and wraps ErrFormat or ErrUnknownKind.
func Parse(path string, data []byte) (Plan, error) {
	var p Plan
	dec := json.NewDecoder(bytes.NewReader(data))
	if err := dec.Decode(&p); err != nil {
		switch {
		case errors.Is(err, io.EOF):
			err = fmt.Errorf("%w: the file is empty", ErrFormat)
		case errors.Is(err, io.ErrUnexpectedEOF):
			err = fmt.Errorf("%w: the file is cut off", ErrFormat)
		}
		return Plan{}, fmt.Errorf("plan %s: %w", path, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Plan{}, fmt.Errorf("plan %s: %w: there is more behind the plan's end", path, ErrFormat)
	}
	return p, nil
}
