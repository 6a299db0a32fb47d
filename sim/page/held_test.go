package page

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/leasestorm/leasestorm/internal/writefile"
	"github.com/leasestorm/leasestorm/sim/report"
)

// Who may rename a run's folder while it is judged does not have the judge overwrite files of another one.
func TestAFolderThatIsSwappedIsNotWritten(t *testing.T) {
	at := t.TempDir()
	run, victim := filepath.Join(at, "run"), filepath.Join(at, "victim")
	for _, dir := range []string{run, victim} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	held, err := writefile.OpenDir(run)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := errors.Join(os.Rename(run, filepath.Join(at, "moved")), os.Symlink(victim, run)); err != nil {
		t.Fatal(err)
	}
	if err := SaveIn(held, report.Report{}, true); !errors.Is(err, writefile.ErrReplaced) {
		t.Errorf("a folder that was swapped: %v", err)
	}
	if files, err := os.ReadDir(victim); len(files) > 0 || err != nil {
		t.Errorf("%v were written elsewhere, %v", files, err)
	}
}
