package probe

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/history"
)

// slack is how far the stamps of two witnesses may differ on a busy host.
const slack = 100 * time.Millisecond

// estimated is how long after a key's expiry was set the tap estimates the time of a deletion from that expiry. A later deletion is
// stamped when the tap reads it, so an event with a later stamp was not reported before the deletion.
const estimated = 25 * time.Millisecond

// wrongClock begins the report of a stamp that is on no clock that a node may use.
const wrongClock = "t is not CLOCK_MONOTONIC"

type seen struct {
	check.Params

	words   map[history.Kind]int
	version int64
	asks    bool

	malformed, wrongClocks          int
	firstMalformed, firstWrongClock string
	strange                         map[string]bool // events that the protocol does not know

	untils, noUntil, pastUntil, farUntil int
	firstPast, firstFar                  time.Duration
	unfenced                             int

	arrivals, unfencedPolls, unowned int
	firstUnowned                     string

	grants, endless, extensions, deletions int
	holders                                map[string]int // grants by value of the key

	expiring              int64 // time when a key last got an expiry
	matched, lateReleases int
	latest                time.Duration
	unclean               string

	instances map[string]string        // instance ID → slot in which it ran
	sharedID  string                   // describes the first ID that two slots used
	owned     map[[2]string]*ownership // by instance ID and session
	leases    map[string]*lease        // by session
}

type ownership struct {
	holds    bool
	ended    int64 // when the instance reported the end
	released int64 // when the instance reported the release; 0: never
	deleted  int64 // when Redis deleted the key before its expiry; 0: never
}

type lease struct {
	holder string
	since  int64
	until  int64
}

func newSeen(p check.Params) *seen {
	return &seen{
		Params: p, words: map[history.Kind]int{}, holders: map[string]int{}, strange: map[string]bool{}, instances: map[string]string{},
		owned: map[[2]string]*ownership{}, leases: map[string]*lease{},
	}
}

func (s *seen) event(e *history.Event) {
	switch {
	case e.Kind.Said():
		s.words[e.Kind]++
		s.word(e)
	case e.Kind == history.KindUnknown:
		word, _, _ := strings.Cut(e.Reason, " ")
		s.strange[word] = true
	case e.Kind == history.Malformed:
		s.line(e)
	case e.Kind == history.Arrived || e.Kind == history.Rejected:
		s.poll(e)
	case e.Kind == history.RedisBeat:
		s.expiring = e.T
	case e.Kind >= history.RedisGranted && e.Kind <= history.RedisDeleted:
		s.redis(e)
	case e.Kind == history.Exited && e.N != 0 && s.unclean == "":
		s.unclean = fmt.Sprintf("%s exited with code %d", e.Node, e.N)
		if e.N < 0 {
			s.unclean = e.Node + " did not exit in time and was killed, or died of a signal"
		}
	case e.Kind == history.Exited && e.Reason == "" && s.unclean == "":
		s.unclean = e.Node + " had ended by itself before"
	}
}

func (s *seen) line(e *history.Event) {
	n, first := &s.malformed, &s.firstMalformed
	if strings.HasPrefix(e.Reason, wrongClock) {
		n, first = &s.wrongClocks, &s.firstWrongClock
	}
	if *n++; *n == 1 {
		*first = e.Reason
	}
}

func (s *seen) word(e *history.Event) {
	if slot, known := s.instances[e.Instance]; known && slot != e.Node && s.sharedID == "" {
		s.sharedID = fmt.Sprintf("%s and %s both call themselves %s", slot, e.Node, e.Instance)
	}
	s.instances[e.Instance] = e.Node
	o := s.ownership(e.Instance, e.Session)
	switch e.Kind {
	case history.Ready:
		s.version = max(s.version, e.N)
		s.asks = s.asks || e.Reason == history.Asks
	case history.Acquired:
		if e.Fence == 0 {
			s.unfenced++
		}
		*o = ownership{holds: true}
		s.window(e)
	case history.Renewed:
		o.holds = true
		s.window(e)
	case history.Lost:
		o.holds, o.ended = false, e.T
	case history.Released:
		o.holds, o.ended, o.released = false, e.T, e.T
		s.match(o)
	}
}

func (s *seen) window(e *history.Event) {
	length := time.Duration(e.Until - e.T)
	switch {
	case e.Until == 0:
		s.noUntil++
		return
	case length <= 0:
		if s.pastUntil++; s.pastUntil == 1 {
			s.firstPast = -length
		}
	case length > s.TTL+slack:
		if s.farUntil++; s.farUntil == 1 {
			s.firstFar = length
		}
	}
	s.untils++
}

func (s *seen) poll(e *history.Event) {
	s.arrivals++
	if e.Fence == 0 {
		s.unfencedPolls++
	}
	o := s.ownership(e.Instance, e.Session)
	if o.holds || o.ended != 0 && e.T <= o.ended+int64(slack) {
		return // a poll in flight when the lease ended may arrive
	}
	if s.unowned++; s.unowned == 1 {
		s.firstUnowned = fmt.Sprintf("%s at %v", e.Instance, time.Duration(e.T).Round(time.Millisecond))
	}
}

func (s *seen) redis(e *history.Event) {
	l := s.leases[e.Session]
	switch e.Kind {
	case history.RedisGranted:
		s.expiring = e.T
		s.grants++
		s.holders[e.Instance]++
		if e.Instance == "" { // holder and expiry are unknown
			delete(s.leases, e.Session)
			return
		}
		if e.Until == 0 {
			s.endless++
		}
		s.leases[e.Session] = &lease{e.Instance, e.T, e.Until}
	case history.RedisExtended:
		s.expiring = e.T
		s.extensions++
		if l != nil {
			if l.until == 0 && e.Until != 0 && e.T <= l.since+int64(slack) { // one command set the key and the next its expiry
				s.endless--
			}
			l.until = max(l.until, e.Until)
		}
	case history.RedisDeleted:
		if l != nil && e.T < l.until-int64(slack) { // otherwise it expired
			s.deletions++
			if e.T > s.expiring+int64(estimated) {
				o := s.ownership(l.holder, e.Session)
				o.deleted = e.T
				s.match(o)
			}
		}
		delete(s.leases, e.Session)
	}
}

// strangers counts the grants to holders that are no instance ID of the run.
func (s *seen) strangers() (n int) {
	for holder, grants := range s.holders {
		if _, known := s.instances[holder]; !known {
			n += grants
		}
	}
	return n
}

// match compares a reported release with the deletion in Redis, once both are known.
func (s *seen) match(o *ownership) {
	if o.released == 0 || o.deleted == 0 {
		return
	}
	s.matched++
	if late := time.Duration(o.released - o.deleted); late > 0 {
		s.lateReleases++
		s.latest = max(s.latest, late)
	}
}

func (s *seen) ownership(instance, session string) *ownership {
	of := [2]string{instance, session}
	if s.owned[of] == nil {
		s.owned[of] = &ownership{}
	}
	return s.owned[of]
}

func names(words map[string]bool) string { return strings.Join(slices.Sorted(maps.Keys(words)), ", ") }
