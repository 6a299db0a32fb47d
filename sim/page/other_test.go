package page

import (
	"errors"
	"os"
	"testing"

	"github.com/leasestorm/leasestorm/internal/writefile"
)

// A run is made smaller for minutes. Who puts another folder in its place meanwhile has nothing written there.
func TestSmallerRunIsPutNowhereElse(t *testing.T) {
	dir, _ := saved(t, params(), nil)
	small, r := saved(t, params(), nil)
	if err := r.Save(small); err != nil {
		t.Fatal(err)
	}
	to, elsewhere := opened(t, dir), t.TempDir()
	if err := os.Rename(dir, dir+"-gone"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, dir); err != nil {
		t.Fatal(err)
	}
	if err := AddSmaller(to, small); !errors.Is(err, writefile.ErrReplaced) {
		t.Errorf("the folder was replaced, and the error is %v", err)
	}
	if left, err := os.ReadDir(elsewhere); err != nil || len(left) > 0 {
		t.Errorf("%d files were written into another folder, %v", len(left), err)
	}
}
