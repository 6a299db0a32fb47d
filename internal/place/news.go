package place

import (
	"github.com/leasestorm/leasestorm/internal/pause"
	"github.com/leasestorm/leasestorm/internal/term"
)

// News is what a server says of the notices and of the fleet's readings. A reading reads sessions, heartbeats and, if needed, owners.
type News struct {
	Notice int64  // number of the last notice
	Age    int64  // ns since the end of the last reading; negative: there was none
	Sum    uint64 // Sessions.Sum of the last reading
	Mine   bool   // the next reading is due, and this instance is to do it
}

// readings decide whether a discovery is a reading, and of what. The instances share the reading of the sessions: each interval, whichever
// asks first when the last reading is an interval old. The others read only the news. They read the sessions too if the news shows others
// than they know, and everything, also the owners, if a notice was lost.
type readings struct {
	k   *term.Kernel // read only
	cfg *pause.Config

	all     bool      // the next discovery reads everything
	reading bool      // a reading is to be sent, or under way
	known   uint64    // Sessions.Sum of the sessions whose owners it need not read again; 0: it reads all
	turns   int       // such readings since the owners were last read
	begun   int64     // number of the last notice when it began
	again   term.Time // when the fleet's next reading is due

	read       int64     // number of the last notice when the last reading began; -1: none of this epoch was answered
	from, last int64     // the notices from from to last were heard
	shown      int64     // number of the last notice in the news
	until      term.Time // when those up to shown should have been heard; 0: they were
	deaf       bool      // notices may have been missed since the last news, because the channel was not subscribed
	bare       bool      // the last notice has no number yet
	mixed      term.Time // until then, an instance of an older version may take part, whose notices have no numbers
}

const (
	mixedFor = 10 // intervals in which each instance reads everything after a notice without a number
	turnsMax = 10 // readings for the fleet that leave out the owners until one reads them, in case that an instance is wrong about one
)

// Noticed records a notice. Its number follows.
func (r *readings) Noticed() {
	if r.bare {
		r.mixed = r.k.Now() + mixedFor*term.Time(r.cfg.Discovery)
	}
	r.bare = true
}

// Numbered records the number of the last notice. ours says whether the number is of the epoch that this instance knows.
func (r *readings) Numbered(number int64, ours bool) {
	r.bare = false
	switch {
	case !ours || number == r.last:
	case number == r.last+1:
		r.last++
	default:
		r.from, r.last = number, number
	}
}

// Unread makes the next discovery a reading, because Redis has another epoch, in which the numbers may begin anew.
func (r *readings) Unread() { r.read, r.from, r.last = -1, 0, 0 }

// heard reports whether all notices after the last reading were heard, up to this number.
func (r *readings) heard(number int64) bool {
	unbroken := r.read >= 0 && (r.last <= r.read || r.from <= r.read+1)
	return unbroken && r.read <= number && number <= max(r.read, r.last)
}

// Known returns the sum of the sessions whose owners need not be read again in the discovery that is due; 0: all are to be read.
func (r *readings) Known() uint64 { return r.known }

// Reading reports whether the discovery that is due, or under way, is a reading.
func (r *readings) Reading() bool { return r.reading }

// news takes over the news. sum is that of this instance's sessions. This instance leaves a reading to others for turn.
func (r *readings) news(n *News, sum uint64, turn int64) {
	now := r.k.Now()
	r.again = now + term.Time(r.cfg.Discovery-n.Age+turn)
	if n.Age < 0 || r.again <= now {
		r.again = now + term.Time(r.cfg.Patience()+turn)
	}
	missed := !r.heard(max(r.read, r.last)) || n.Notice < r.read || r.until != 0 && r.until <= now && !r.heard(r.shown) ||
		r.deaf && !r.heard(n.Notice)
	unsaid := r.k.InQuarantine() || now < r.mixed // no notice says that a term is reasserted
	owners := r.all || missed || unsaid || n.Age < 0 || r.turns >= turnsMax
	r.reading, r.known = owners || n.Mine || n.Sum != sum, sum
	r.all, r.deaf, r.begun, r.shown, r.until = false, false, n.Notice, n.Notice, 0
	if owners {
		r.known = 0
	} else if !r.heard(n.Notice) {
		r.until = now + term.Time(r.cfg.Patience())
	}
}

// done records that the reading under way was answered. owners says whether it read the owners.
func (r *readings) done(owners bool) {
	r.turns++
	if owners {
		r.read, r.until, r.turns = r.begun, 0, 0
	}
	r.reading = false
	r.again = r.k.Now() + term.Time(r.cfg.Discovery)
}
