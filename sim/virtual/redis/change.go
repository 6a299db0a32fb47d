package redis

// Change is a write to the keys. The replicas apply it, and history shows it. Times are in ms of the server's clock.
type Change struct {
	Kind   changeKind
	N      int32    // number of the lease or heartbeat
	Name   string   // of another key, or the verb of a command
	Text   string   // owner, epoch or value
	Words  []string // fields of a hash or of an entry, or arguments of a command
	Expire int64    // of the key
	At     int64    // fence; true time of a heartbeat; the master's clock at a command
}

type changeKind uint8

const (
	Granted changeKind = iota
	Extended
	Deleted
	Fenced
	EpochSet
	Beaten
	BeatGone
	Flushed
	// The following concern keys that leases do not use.
	Stored
	Hashed
	Added // replicas execute its command
	Removed
	ran // a command that replicas execute themselves
)
