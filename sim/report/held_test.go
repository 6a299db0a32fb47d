package report

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// Who may rename a run's folder shows another run at its path while it is judged. What is judged is the folder that was opened: its
// report, plan, scenario, history and logs.
func TestWhatIsJudgedIsTheFolderThatIsHeld(t *testing.T) {
	dir, _ := saved(t, true)
	other, _ := saved(t, false)
	if err := errors.Join(os.Mkdir(filepath.Join(dir, LogsName), 0o700), os.Mkdir(filepath.Join(other, LogsName), 0o700),
		os.WriteFile(filepath.Join(other, LogsName, "node-1.log"), []byte("another's\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	in, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	judged := func() string {
		r, _, err := Judge(in)
		if err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		if err := errors.Join(r.Table(&text), r.Failures(&text, in), r.Intact(in)); err != nil {
			t.Fatal(err)
		}
		return text.String()
	}
	want := judged()
	if err := errors.Join(os.Rename(dir, dir+"-moved"), os.Rename(other, dir)); err != nil {
		t.Fatal(err)
	}
	if got := judged(); got != want {
		t.Errorf("another folder was judged:\n%s\nnot\n%s", got, want)
	}
}
