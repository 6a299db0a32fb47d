package report

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/timing"
)

// FuzzReport reads any file as report.json. It is refused with its name, or it is written and read as the same report, can be shown, and is
// compared with the folder.
func FuzzReport(f *testing.F) {
	for _, text := range []string{
		"", "{}", `{"version":1}`, `{"version":2}`, "[]", "null", "\xff", `{"version":2,"config":{"nodes":1,"sessions":1}}`, `{"version":"2"}`,
	} {
		f.Add([]byte(text))
	}
	p := check.Params{
		Nodes: 2, Sessions: 1,
		Timings: timing.Timings{
			TTL: 3 * time.Second, Renew: time.Second, Poll: time.Second, Discovery: time.Second,
		},
		Plan: fault.Plan{Version: fault.Version, Faults: []fault.Fault{{At: time.Second, Kind: fault.Crash, Target: "node-1"}}},
	}
	verdicts := []check.Verdict{{ID: "G1", Value: 7, Verdict: check.Fail, Detail: "two owners"}}
	good, err := New(Meta{Engine: "real", Sums: map[string]string{PlanName: "0a"}}, p, check.Result{Verdicts: verdicts}).JSON()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	dir := f.TempDir()
	file := filepath.Join(dir, FileName)
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := Load(dir)
		if err != nil {
			known := errors.Is(err, ErrEmpty) || errors.Is(err, ErrFormat) || errors.Is(err, ErrDamaged)
			if !known || !strings.Contains(err.Error(), file) {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		written, err := r.JSON()
		if err != nil {
			t.Fatalf("%q was read and cannot be written: %v", text, err)
		}
		if err := os.WriteFile(file, written, 0o600); err != nil {
			t.Fatal(err)
		}
		again, err := Load(dir)
		if err != nil {
			t.Fatalf("%q was written as %q and cannot be read: %v", text, written, err)
		}
		if twice, err := again.JSON(); err != nil || !bytes.Equal(twice, written) {
			t.Fatalf("%q was written as %q, then as %q, %v", text, written, twice, err)
		}
		if err := errors.Join(r.Table(io.Discard), r.Failures(io.Discard, dir)); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if err := r.Matches(Files{dir: dir}); !errors.Is(err, ErrDamaged) {
			t.Fatalf("%q belongs to a folder with an empty plan and scenario: %v", text, err)
		}
	})
}
