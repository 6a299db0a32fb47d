package check

import (
	"cmp"
	"hash/maphash"
	"slices"
)

// sessions are all that a history names, by ID and in the order in which it does. Every event asks for its session: where
// there are ten thousand, a map takes four reads of memory to find one and this takes one, and the session's own.
type sessions struct {
	all   []*session
	rooms [][]session // what all points to: roomLen in each
	slots []slot      // a hash table without chains; the number of slots is a power of two
	seed  maphash.Seed
}

// slot leads to a session.
type slot struct {
	hash uint32
	n    uint32 // 1 + where it stands in all; 0: the slot is vacant
}

const roomLen = 64

// find returns the session of that ID, nil if none was met.
func (s *sessions) find(id string) *session {
	if len(s.slots) == 0 {
		return nil
	}
	hash := uint32(maphash.String(s.seed, id))
	for i := hash; ; i++ {
		x := s.slots[i&uint32(len(s.slots)-1)]
		if x.n == 0 {
			return nil
		}
		if n := x.n - 1; x.hash == hash && s.rooms[n/roomLen][n%roomLen].id == id {
			return &s.rooms[n/roomLen][n%roomLen]
		}
	}
}

// add makes a session of an ID that was not met before.
func (s *sessions) add(id string) *session {
	n := len(s.all)
	if n%roomLen == 0 {
		s.rooms = append(s.rooms, make([]session, roomLen))
	}
	if 4*n >= 3*len(s.slots) {
		s.grow()
	}
	x := &s.rooms[n/roomLen][n%roomLen]
	x.id = id
	s.all = append(s.all, x)
	s.place(slot{hash: uint32(maphash.String(s.seed, id)), n: uint32(n + 1)})
	return x
}

func (s *sessions) place(x slot) {
	i := x.hash
	for s.slots[i&uint32(len(s.slots)-1)].n != 0 {
		i++
	}
	s.slots[i&uint32(len(s.slots)-1)] = x
}

func (s *sessions) grow() {
	old := s.slots
	if old == nil {
		s.seed = maphash.MakeSeed()
	}
	s.slots = make([]slot, max(roomLen, 2*len(old)))
	for _, x := range old {
		if x.n != 0 {
			s.place(x)
		}
	}
}

// sorted returns them by ID.
func (s *sessions) sorted() []*session {
	return slices.SortedFunc(slices.Values(s.all), func(a, b *session) int { return cmp.Compare(a.id, b.id) })
}
