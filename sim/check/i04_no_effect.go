package check

import (
	"strings"

	"github.com/leasestorm/leasestorm/sim/history"
)

// i4 judges that a rejected request changes nothing. Clients that send requests to be refused ask for content that no other client
// asks for, so any trace of it in Redis comes from them. A start whose every request was refused must leave no trace either.
type i4 struct{ intentRule }

func (g *i4) event(e *history.Event) {
	switch r := g.book.answered; {
	case e.Kind == history.RedisKeyed:
		g.suspects(g.book.key(e.Reason))
	case r == nil:
	case strings.HasPrefix(e.Reason, "4"):
		g.exercise("")
		if r.want != nil {
			g.suspects(r.want)
		}
	case strings.HasPrefix(r.what, "bad"):
		g.broke(nil, "request %d (%s) was answered %s at %s instead of being refused", e.N, r.what, e.Reason, clock(e.T))
	}
}

// aside applies the rule to every other server.
func (g *i4) aside(e *history.Event) {
	if e.Kind == history.RedisKeyed {
		g.event(e)
	}
}

// suspects judges a start that was refused or has a key now. The stamp of the key may be a little before that of its request.
func (g *i4) suspects(v *want) {
	g.w.at(g.w.host.recordedBy(g.w.now), func() {
		if v.payload != "" && v.open == 0 && v.accepted == 0 && v.first != nil && !v.told {
			v.told = true
			g.breach(breach{session: v.first.session, from: v.firstAt}, "at %s Redis held a session (%s) of %s, and every request for it had been "+
				"refused", clock(v.firstAt), v.first.id, v.payload)
		}
	})
}
