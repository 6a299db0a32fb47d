package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/sim/page"
)

// Copies of pages that were opened a while ago go, and nothing else does.
func TestOldPagesAreRemoved(t *testing.T) {
	temporary := t.TempDir()
	now := time.Now()
	put := func(name, file string, at time.Time) {
		t.Helper()
		dir := filepath.Join(temporary, name)
		for _, err := range []error{
			os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, file), nil, 0o600), os.Chtimes(dir, at, at),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	old := now.Add(-2 * pageLife)
	put(pagePrefix+"1", page.FileName, old)
	put(pagePrefix+"2", page.FileName, now)
	put(pagePrefix+"3", "mine", old)
	put("another-1", page.FileName, old)
	removePages(temporary, now.Add(-pageLife))
	for name, stays := range map[string]bool{pagePrefix + "1": false, pagePrefix + "2": true, pagePrefix + "3": true, "another-1": true} {
		if _, err := os.Stat(filepath.Join(temporary, name)); (err == nil) != stays {
			t.Errorf("%s: %v, want it to stay: %v", name, err, stays)
		}
	}
}
