package stream

// Keys are the keys of a system, by which a stream knows what a command means.
type Keys struct {
	Epoch    string   // the key with the epoch of the data; it exists before the first node starts
	Patterns []string // of the keys in a snapshot
	// Split returns a key's kind and its session or instance; never keyEpoch.
	Split func(key []byte) (Kind, string)
}

// Kind is what a key holds.
type Kind uint8

// The kinds of keys.
const (
	KeyOther Kind = iota
	KeyLease
	KeyFence
	KeyNode
	KeyIdem   // an idempotency key, whose value is a session
	KeyRecord // the record of a session, a hash
	KeyBus    // the stream of events for workers
	keyEpoch  // the epoch of the data
	keyKinds
)
