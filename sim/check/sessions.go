package check

import (
	"cmp"
	"hash/maphash"
	"slices"

	"github.com/leasestorm/leasestorm/sim/history"
)

// sessions are all that a history names, by ID and in the order in which it does. Every event asks for its session: where
// there are ten thousand, a map takes four reads of memory to find one and this takes one, and the session's own.
type sessions struct {
	all   []*session
	rooms [][]session // what all points to: roomLen in each
	slots []slot      // a hash table without chains; the number of slots is a power of two
	seed  maphash.Seed
	warm  uint64 // of what findAll reads: it must not be left out as useless
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
	return s.look(id, s.hash(id))
}

func (s *sessions) hash(id string) uint32 { return uint32(maphash.String(s.seed, id)) }

func (s *sessions) look(id string, hash uint32) *session {
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

// findAll finds the sessions of all events of a batch, and reads a word of every line of memory that the checkers will ask of
// them. In a large fleet hardly any is in a cache, and a line takes longer to come than an event takes to judge; but they come
// side by side where nothing waits for one before the next is asked for, hence the rounds.
func (s *sessions) findAll(batch []history.Event, met *[batchLen]*session) {
	if len(s.slots) == 0 {
		return
	}
	var hashes, first [batchLen]uint32
	for i := range batch {
		hashes[i] = s.hash(batch[i].Session)
		first[i] = s.slots[hashes[i]&uint32(len(s.slots)-1)].n
	}
	for _, n := range first[:len(batch)] {
		if n--; n < uint32(len(s.all)) { // mostly it is the one
			s.warm += uint64(s.rooms[n/roomLen][n%roomLen].addedAt)
		}
	}
	for i := range batch {
		met[i] = s.look(batch[i].Session, hashes[i])
	}
	for i, x := range met[:len(batch)] {
		if x != nil {
			s.warm += x.lines(isPoll(batch[i].Kind))
		}
	}
	for i, x := range met[:len(batch)] {
		if x != nil {
			s.warm += x.beyond(isPoll(batch[i].Kind))
		}
	}
}

// lines reads from the lines of memory in which lies what an event of a poll, or any other, asks of the session.
func (s *session) lines(poll bool) uint64 {
	sum := uint64(len(s.renewals.all)) + uint64(s.polled.last)
	if s.orphan != nil {
		sum++
	}
	if poll {
		return sum + uint64(s.room[s.polls.next].t) + uint64(len(s.target.holder)) + uint64(len(s.target.serving)) +
			uint64(s.target.server[0].at) + uint64(len(s.turns.shown.inst)) + uint64(len(s.turns.begun)) +
			uint64(s.fences.last) + uint64(s.fences.polled)
	}
	return sum + uint64(s.fences.set) + uint64(len(s.terms)) + uint64(len(s.key.holder)) + uint64(len(s.key.said)) + uint64(s.recent.next)
}

// beyond reads from what it points to.
func (s *session) beyond(poll bool) (sum uint64) {
	if r := s.renewals.latest; r != nil {
		sum += uint64(r.sent)
		if r.inst.gone {
			sum++
		}
	}
	if poll {
		return sum
	}
	if len(s.terms) > 0 {
		sum += uint64(s.terms[0].until) + uint64(s.terms[0].armed)
	}
	if len(s.recent.moments) > 0 {
		sum += uint64(s.recent.moments[s.recent.next].t)
	}
	if len(s.key.said) > 0 {
		sum += uint64(s.key.said[0].at)
	}
	return sum
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
	s.place(slot{hash: s.hash(id), n: uint32(n + 1)})
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
