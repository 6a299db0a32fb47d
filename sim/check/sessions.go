package check

import (
	"cmp"
	"slices"
)

// sessions are all that a history names, by ID and in the order in which it does.
type sessions struct {
	all  []*session
	byID map[string]*session
}

func (s *sessions) find(id string) *session { return s.byID[id] }

// add makes a session of an ID that was not met before.
func (s *sessions) add(id string) *session {
	if s.byID == nil {
		s.byID = map[string]*session{}
	}
	x := &session{id: id}
	s.all = append(s.all, x)
	s.byID[id] = x
	return x
}

func (s *sessions) sorted() []*session {
	return slices.SortedFunc(slices.Values(s.all), func(a, b *session) int { return cmp.Compare(a.id, b.id) })
}
