package real

import (
	"testing"

	"github.com/leasestorm/leasestorm/sim/real/stream"
)

// A lease is that of the session with whose ID its key ends, whatever a library writes before the ID.
func TestSplitPolling(t *testing.T) {
	const id = "0190a8c2-8f5e-4c2a-9d7e-3b1f6a2c4d5e"
	for key, want := range map[string]struct {
		kind stream.Kind
		id   string
	}{
		"poll:lease:" + id:              {stream.KeyLease, id},
		"poll:lease:0:" + id:            {stream.KeyLease, id},
		"poll:lease:0:s-1":              {stream.KeyLease, "0:s-1"},
		"{poll:lease:" + id + "}:fence": {stream.KeyFence, id},
		"poll:node:0:" + id:             {stream.KeyNode, "0:" + id},
		"session:" + id:                 {stream.KeyOther, ""},
	} {
		if kind, got := systems[systemPolling].Split([]byte(key)); kind != want.kind || got != want.id {
			t.Errorf("%s is %d of %q, want %d of %q", key, kind, got, want.kind, want.id)
		}
	}
}
