package real

import (
	"os"
	"path/filepath"
	"testing"
)

// What a wiped replica forgets is what lies in its own folder: a file of that name where the simulator was started is its user's.
func TestReplicaIsWipedInItsFolderLong(t *testing.T) {
	if testing.Short() {
		t.Skip("several servers")
	}
	r := provisionChoice(t, RedisChoice{Servers: 3})
	t.Chdir(t.TempDir())
	if err := os.WriteFile("dump.rdb", []byte("somebody's"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := r.replicated.members[1]
	m.kill()
	if err := m.erase(); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile("dump.rdb"); string(text) != "somebody's" {
		t.Errorf("a file of the user: %q, %v", text, err)
	}
	if left, err := filepath.Glob(filepath.Join(m.dir, "appendonly*")); err != nil || len(left) > 0 {
		t.Errorf("left of the replica's data: %q, %v", left, err)
	}
}
