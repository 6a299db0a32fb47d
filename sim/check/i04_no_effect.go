package check

import (
	"strings"

	"github.com/leasestorm/leasestorm/sim/history"
)

// i4 judges that a rejected request changes nothing. Clients that mean to be refused ask for what no other client asks for, so any trace
// in Redis is theirs. A start whose every request was refused must leave no trace either.
type i4 struct{ intentRule }

func (g *i4) event(e *history.Event) {
	switch r := g.book.answered; {
	case r == nil:
	case strings.HasPrefix(e.Reason, "4"):
		g.exercise("")
	case strings.HasPrefix(r.what, "bad"):
		g.broke(nil, "request %d (%s) was answered %s at %s instead of being refused", e.N, r.what, e.Reason, clock(e.T))
	}
}

// finish judges the keys of all servers.
func (g *i4) finish() {
	for _, key := range sortedKeys(g.book.wants) {
		if v := g.book.wants[key]; v.payload != "" && v.open == 0 && v.accepted == 0 && v.first != nil {
			g.breach(breach{session: v.first.session, from: v.firstAt}, "at %s Redis held a session (%s) of %s, and every request for it had been "+
				"refused", clock(v.firstAt), v.first.id, v.payload)
		}
	}
}
