package sim

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Lines without a word of one text cost the YAML library time that grows with the square of their number.
func TestAScenarioOfEmptyLinesIsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "s.yaml")
	for lines, want := range map[int]string{blankMax: "unknown field", blankMax + 1: "lines of it are empty"} {
		if err := os.WriteFile(file, []byte("a: |\n"+strings.Repeat(" \n", lines)), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(file); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%d empty lines: %v, want %q", lines, err, want)
		}
	}
}
