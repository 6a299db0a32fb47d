package page

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/leasestorm/leasestorm/internal/heldtest"
	"github.com/leasestorm/leasestorm/sim/report"
)

// Who may rename a run's folder while it is read shows another run in its place, and then the first again. What is written into the folder
// shows the run that is in it, and nothing is written into the other.
func TestWhatIsShownIsOfTheFolderThatIsWritten(t *testing.T) {
	dir, r := saved(t, params(), overlapped(noUntil, "-theirs"))
	other, _ := saved(t, params(), overlapped(noUntil, "-secret"))
	to := heldtest.Dir(t, dir)
	want, sentence, err := save(to, r, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Rename(dir, dir+"-moved"), os.Rename(other, dir)); err != nil {
		t.Fatal(err)
	}
	if got, said, err := save(to, r, true); err != nil || said != sentence || !bytes.Equal(got, want) {
		t.Errorf("what is shown is of another folder (%v): %q, not %q", err, said, sentence)
	}
	if err := errors.Join(SaveTrace(to, r), SaveParting(to, r, Parting{})); err != nil {
		t.Error(err)
	}
	for _, name := range []string{FileName, SummaryName, JUnitName, TraceName, DiffName} {
		text, err := os.ReadFile(filepath.Join(dir+"-moved", name))
		if err != nil || bytes.Contains(text, []byte("-secret")) {
			t.Errorf("%s tells of another folder, or is not written: %v", name, err)
		}
		if _, err := os.Stat(filepath.Join(dir, name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s was written into another folder: %v", name, err)
		}
	}
}

func TestNothingIsShownInAFolderThatIsNotOpen(t *testing.T) {
	closed := heldtest.Dir(t, t.TempDir())
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	if err := Save(closed, report.Report{}, true); err == nil {
		t.Error("a folder that is not open is no error")
	}
}
