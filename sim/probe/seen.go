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

	words                  map[history.Kind]int
	version                int64
	asks                   bool
	malformed, wrongClocks counted[string]
	strange                map[string]bool // events that the protocol does not know
	unfenced               int
	until                  windows

	arrivals, unfencedPolls int
	unowned                 counted[string]

	keys    keys
	handed  releases
	unclean string

	instances map[string]string        // instance ID → slot in which it ran
	sharedID  string                   // describes the first ID that two slots used
	owned     map[[2]string]*ownership // by instance ID and session
}

// counted counts what breaks a rule, and keeps the first.
type counted[T any] struct {
	n     int
	first T
}

func (c *counted[T]) add(v T) {
	if c.n++; c.n == 1 {
		c.first = v
	}
}

// windows are the trust windows that nodes report.
type windows struct {
	given, missing int
	past, far      counted[time.Duration] // ended before they were reported; end too late
}

func (w *windows) add(e *history.Event, most time.Duration) {
	length := time.Duration(e.Until - e.T)
	switch {
	case e.Until == 0:
		w.missing++
		return
	case length <= 0:
		w.past.add(-length)
	case length > most:
		w.far.add(length)
	}
	w.given++
}

// releases are the releases that nodes report and Redis shows.
type releases struct {
	matched, late int
	latest        time.Duration
}

// match compares a reported release with the deletion in Redis, once both are known.
func (r *releases) match(o *ownership) {
	if o.released == 0 || o.deleted == 0 {
		return
	}
	r.matched++
	if late := time.Duration(o.released - o.deleted); late > 0 {
		r.late++
		r.latest = max(r.latest, late)
	}
}

// keys are the keys of leases as Redis shows them.
type keys struct {
	grants, endless, extensions, deletions int
	holders                                map[string]int    // grants by value of the key
	expiring                               int64             // time when a key last got an expiry
	leases                                 map[string]*lease // by session
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
		Params: p, words: map[history.Kind]int{}, strange: map[string]bool{}, instances: map[string]string{},
		owned: map[[2]string]*ownership{}, keys: keys{holders: map[string]int{}, leases: map[string]*lease{}},
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
		if strings.HasPrefix(e.Reason, wrongClock) {
			s.wrongClocks.add(e.Reason)
		} else {
			s.malformed.add(e.Reason)
		}
	case e.Kind == history.Arrived || e.Kind == history.Rejected:
		s.poll(e)
	case e.Kind == history.RedisBeat:
		s.keys.expiring = e.T
	case e.Kind >= history.RedisGranted && e.Kind <= history.RedisDeleted:
		if l := s.keys.see(e); l != nil { // otherwise it expired, or its time is an estimate
			o := s.ownership(l.holder, e.Session)
			o.deleted = e.T
			s.handed.match(o)
		}
	case e.Kind == history.Exited && e.N != 0 && s.unclean == "":
		s.unclean = fmt.Sprintf("%s exited with code %d", e.Node, e.N)
		if e.N < 0 {
			s.unclean = e.Node + " did not exit in time and was killed, or died of a signal"
		}
	case e.Kind == history.Exited && e.Reason == "" && s.unclean == "":
		s.unclean = e.Node + " had ended by itself before"
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
		s.until.add(e, s.TTL+slack)
	case history.Renewed:
		o.holds = true
		s.until.add(e, s.TTL+slack)
	case history.Lost:
		o.holds, o.ended = false, e.T
	case history.Released:
		o.holds, o.ended, o.released = false, e.T, e.T
		s.handed.match(o)
	}
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
	s.unowned.add(fmt.Sprintf("%s at %v", e.Instance, time.Duration(e.T).Round(time.Millisecond)))
}

// see takes an event of Redis into account. It returns the lease of a key that was deleted before its expiry at a known time.
func (k *keys) see(e *history.Event) *lease {
	l := k.leases[e.Session]
	switch e.Kind {
	case history.RedisGranted:
		k.granted(e)
	case history.RedisExtended:
		k.expiring = e.T
		k.extensions++
		if l == nil {
			break
		}
		if l.until == 0 && e.Until != 0 && e.T <= l.since+int64(slack) { // one command set the key and the next its expiry
			k.endless--
		}
		l.until = max(l.until, e.Until)
	case history.RedisDeleted:
		delete(k.leases, e.Session)
		if l == nil || e.T >= l.until-int64(slack) { // it expired
			break
		}
		k.deletions++
		if e.T > k.expiring+int64(estimated) {
			return l
		}
	}
	return nil
}

func (k *keys) granted(e *history.Event) {
	k.expiring = e.T
	k.grants++
	k.holders[e.Instance]++
	if e.Instance == "" { // holder and expiry are unknown
		delete(k.leases, e.Session)
		return
	}
	if e.Until == 0 {
		k.endless++
	}
	k.leases[e.Session] = &lease{e.Instance, e.T, e.Until}
}

// strangers counts the grants to holders that are no instance ID of the run.
func (s *seen) strangers() (n int) {
	for holder, grants := range s.keys.holders {
		if _, known := s.instances[holder]; !known {
			n += grants
		}
	}
	return n
}

func (s *seen) ownership(instance, session string) *ownership {
	of := [2]string{instance, session}
	if s.owned[of] == nil {
		s.owned[of] = &ownership{}
	}
	return s.owned[of]
}

func names(words map[string]bool) string { return strings.Join(slices.Sorted(maps.Keys(words)), ", ") }
