package check

import (
	"cmp"
	"slices"
)

// sessions holds all sessions of a history, by ID and in the order of their first mention.
type sessions struct {
	all  []*session
	byID map[string]*session
}

func (s *sessions) find(id string) *session { return s.byID[id] }

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
