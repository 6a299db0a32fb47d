package sim

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Any scenario file is loaded, or refused in one line. A plan from it is valid.
func FuzzScenarioFile(f *testing.F) {
	files, err := filepath.Glob("builtin/*.yaml")
	if err != nil || len(files) == 0 {
		f.Fatal("no built-in scenarios", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Add("timings: {ttl: 1s, renew: 300ms}\nplan:\n  - {at: 1s, kind: crash, target: node-1, for: 1s}\n")
	f.Add("nodes: &a 3\nsessions: *a\n")
	f.Add("<<: *x\n")
	f.Add("engine: virtual\nspeed: .nan\nplan:\n  - {at: 1s, kind: session-add, ms: 100000}\n")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := load("s.yaml", func(string) ([]byte, error) { return []byte(text), nil })
		if err == nil {
			_, err = s.Resolve()
		}
		if err != nil && (!errors.Is(err, ErrInvalid) || strings.ContainsAny(err.Error(), "\n\r")) {
			t.Errorf("refused by %q", err)
		}
	})
}
