package check

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leasestorm/leasestorm/internal/heldtest"
)

// A link in the place of the logs' folder may lead to logs that whoever put it there could not read.
func TestLogsAreReadInTheRunsFolderOnly(t *testing.T) {
	run, elsewhere := t.TempDir(), t.TempDir()
	link := filepath.Join(run, "logs")
	if err := errors.Join(os.WriteFile(filepath.Join(elsewhere, "node-1.log"), nil, 0o600), os.Symlink(elsewhere, link)); err != nil {
		t.Fatal(err)
	}
	l := ReadLogs(heldtest.Dir(t, run), "logs")
	if err := l.Err(); len(l.Sums()) > 0 || err == nil || !strings.Contains(err.Error(), link) {
		t.Errorf("read %v, %v", l.Sums(), err)
	}
}
