package intent

// turns limits how many sessions are being started at once.
type turns struct {
	limit int        // 0: none
	line  []*session // queued
	busy  int        // sessions that are being started
}

func (t *turns) queue(s *session) { t.line = append(t.line, s) }

// next removes the session whose turn it is from the queue, and returns it; nil: there is none.
func (t *turns) next() *session {
	if len(t.line) == 0 || t.limit > 0 && t.busy >= t.limit {
		return nil
	}
	s := t.line[0]
	t.line[0] = nil
	t.line = t.line[1:]
	s.turn = true
	t.busy++
	return s
}

// leave ends the turn of s, if it has one.
func (t *turns) leave(s *session) {
	if s.turn {
		s.turn = false
		t.busy--
	}
}
