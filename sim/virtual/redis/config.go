package redis

import (
	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/redisstore"
)

// Config is what a server needs to know.
type Config struct {
	redisstore.Options // of the scripts

	Label  string // distinguishes its run IDs from other servers'
	Runs   int    // number of earlier runs
	Local  bool   // callers reach it at a loopback address
	Lua    bool   // an interpreter runs the scripts instead of their Go twins
	Loaded bool   // it knows all scripts from the start

	// Script alters a script before compilation. Begun is Seams.Begun. Older returns the script and keys of an earlier version's call.
	// All may be nil.
	Script func(text string) string
	Begun  func(condition string, lost bool)
	Older  func(op *core.Op, c redisstore.Call) (text string, keys []string, is bool)

	Wrote   func(Change) // receives the writes, as a replica does
	Publish func(core.Notice)
	Shout   func(text string) // publishes on other channels
	Named   func(id string)   // called when a lease is first named
}
