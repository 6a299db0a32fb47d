package place

import (
	"slices"

	"github.com/leasestorm/leasestorm/internal/member"
)

// Look is one reading of the whole namespace. It is immutable and may be shared by many instances.
type Look struct {
	Sessions *Sessions
	Owners   []string      // aligned with Sessions.IDs; "" free; nil: they were not read
	Nodes    []member.Seen // live heartbeats, in any order
}

// Sessions is the set of sessions that need an owner, which are not paused. They ascend by ID. Immutable; NewSessions builds it.
type Sessions struct {
	IDs    []string
	hashes []uint64
	sum    uint64
	index  map[string]int32 // never ranged over
}

// NewSessions returns the set of ids. It sorts ids, drops duplicates and keeps the slice.
func NewSessions(ids []string) *Sessions {
	slices.Sort(ids)
	ids = slices.Compact(ids)
	s := &Sessions{IDs: ids, hashes: make([]uint64, len(ids)), index: make(map[string]int32, len(ids))}
	for i, id := range ids {
		s.hashes[i] = member.Hash(id)
		s.sum += rank(0, s.hashes[i])
		s.index[id] = int32(i)
	}
	return s
}

// Sum differs for different sets, but for 1 pair in 2^64.
func (s *Sessions) Sum() uint64 { return s.sum }

// Find returns the index of a session, -1 if there is none of that ID.
func (s *Sessions) Find(id string) int32 {
	if i, ok := s.index[id]; ok {
		return i
	}
	return -1
}

// known is what this instance knows of a session. Every instance handles a notice for each move of each session, so the fields it needs
// are in one struct: in a large fleet none of them is in the CPU cache.
type known struct {
	owner   int32 // index into the registry, Nobody if free
	free    bool  // the last discovery showed it free
	asked   bool  // it vanished under a living owner, who was asked; no discovery has shown an owner since
	entered bool  // this instance has an entry of its lease
	held    bool  // this instance holds it
}

// Nobody is the index of no session and no instance.
const Nobody = int32(-1)

// view is what is known of all sessions.
type view struct {
	sessions *Sessions
	known    []known // aligned with sessions
}

// Sessions returns the present set.
func (v *view) Sessions() *Sessions { return v.sessions }

// ID returns the ID of session i.
func (v *view) ID(i int32) string { return v.sessions.IDs[i] }

// Find returns the index of a session, Nobody if there is none of that ID.
func (v *view) Find(id string) int32 { return v.sessions.Find(id) }

// Owner returns the index of the owner of session i in the registry, Nobody if the session is free.
func (v *view) Owner(i int32) int32 { return v.known[i].owner }

// Entered reports whether this instance has an entry of the lease of session i. In a large fleet few sessions have one.
func (v *view) Entered(i int32) bool { return v.known[i].entered }

// Enter records that this instance has an entry of the lease of session i, or none.
func (v *view) Enter(i int32, entered bool) {
	if i != Nobody {
		v.known[i].entered = entered
	}
}

// Hold records that this instance holds session i, or does not.
func (v *view) Hold(i int32, held bool) {
	if i != Nobody {
		v.known[i].held = held
	}
}
