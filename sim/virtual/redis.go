package virtual

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/sim/virtual/loop"
)

// fenceLife is how long a fence outlives its last use, in ms.
const fenceLife = int64(redisstore.DefaultFenceTTL) / core.Millisecond

// redis holds a server's keys and executes the store's scripts on them, atomically, on the server's own clock.
type redis struct {
	refusals

	runID string
	runs  int
	clock loop.Clock

	label       string // distinguishes its run IDs from other servers'
	replicas    int    // lease.Config.Replicas
	syncFull    int    // full synchronizations of replicas with this run
	syncPartial int    // partial synchronizations
	connected   int
	lived       string
	alike       []*redis // all other servers, which share the numbers of keys (leaseIdx, beatIdx)

	epoch      string // value of poll:epoch; "": no such key
	quarantine int64  // ns that an epoch without declared data grants nothing
	local      bool   // callers reach it at a loopback address
	use        use
	lost       bool         // all data was lost at least once
	why        string       // why the current script was refused
	dirty      bool         // the current script has written
	lua        *interpreter // nil: the Go twins run

	leases   []leaseKey
	leaseIdx map[string]int32 // never ranged over
	beats    []beatKey
	beatIdx  map[string]int32   // never ranged over
	live     []int32            // heartbeats that were set and not yet found expired, ascending
	scanned  []int32            // result of the last scan
	others   map[string]*object // ranged over only in sorted order
	names    names
	fed      []string // streams that got an entry in the current command
	at       int64    // time of a repeated command on the master's clock, ms; 0: none

	staleBeats map[int32]string // values that BeatStale forces on heartbeats

	sessionSet  *core.Sessions // unpaused
	sessionIdx  []int32        // lease of each session
	sessionAt   []int32        // session of each lease; -1 or missing: none
	version     uint64         // counts changes of a discovery's result, except expiries
	look        *core.Look
	lookVersion uint64
	lookUntil   int64 // end of look's validity, ms of the server's clock

	tap     tap
	publish func(core.Notice)
	shout   func(channel, text string) // publishes on other channels
	onLease func(id string)            // called when a lease is first named
	seams   Seams
}

type leaseKey struct {
	id           string
	owner        string // "": no such key
	expire       int64  // ms; the key lives while now ≤ expire
	fence        int64  // 0: the fence key holds none
	fenceExpire  int64  // ms
	foreign      bool   // the key exists and holds no string
	fenceForeign bool   // the same for the fence key
	timer        bool   // an expiry event is pending
	fenceText    string // string in the fence key that is no fence, else ""
}

func (k *leaseKey) there() bool { return k.owner != "" || k.foreign }

func (k *leaseKey) fenced() bool { return k.fence != 0 || k.fenceText != "" || k.fenceForeign }

// forever is the expiry of a key without one.
const forever = int64(1) << 62

// left returns the remaining life of a held lease in ns, 0 if it does not expire.
func (k *leaseKey) left(now int64) int64 {
	if k.expire == forever {
		return 0
	}
	return max(1, k.expire-now) * core.Millisecond // 0 would mean unknown
}

type beatKey struct {
	id     string
	text   string // "": the value is "1"
	set    bool
	since  int64 // true time at which it was last set anew
	expire int64 // ms
	timer  bool
}

func (b *beatKey) left(now int64) int64 { return max(1, b.expire-now) * core.Millisecond }

// tap receives the server's writes, as a replica does. Times are in ms of the server's clock.
type tap interface {
	granted(lease int32, owner string, expire int64)
	extended(lease int32, owner string, expire int64)
	deleted(lease int32)
	fenced(lease int32, fence int64)
	epochSet(epoch string)
	beat(i int32, expire int64)
	beatGone(i int32)
	flushed()
	// The following concern keys that leases do not use.
	stored(name, text string, expire int64)
	hashed(name string, pairs []string)
	added(name string, pairs []string)
	removed(name string)
	// ran is a command on such a key that replicas execute themselves. now is the master's clock in ms.
	ran(verb string, args []string, now int64)
}

func newRedis(quarantine int64, t tap, publish func(core.Notice)) *redis {
	r := &redis{
		quarantine: quarantine, tap: t, publish: publish, names: defaultNames, shout: func(string, string) {}, onLease: func(string) {},
		leaseIdx: map[string]int32{}, beatIdx: map[string]int32{}, sessionSet: core.NewSessions(nil),
	}
	r.restart()
	return r
}

func (r *redis) restart() {
	r.runs++
	r.use = use{}
	r.runID, r.syncFull, r.syncPartial = "run"+r.label+strconv.Itoa(r.runs), 0, 0
	r.relive()
	r.version++
}

// life is life.lua. It returns the prefix of an epoch.
func (r *redis) life() string {
	if r.replicas == 0 {
		return r.runID
	}
	return r.lived
}

// relive starts a new life, which lasts until the run ends or another replica attaches.
func (r *redis) relive() {
	if r.replicas > 0 {
		r.lived = r.runID + ":" + strconv.Itoa(r.syncFull+r.syncPartial) + ":" + strconv.Itoa((r.replicas+1)/2)
	}
}

// bootstrap declares that no data was lost, so the present run needs no quarantine.
func (r *redis) bootstrap() {
	r.epoch = r.life() + " 0"
	r.cmdHSet(0, []string{r.names.group(), "epoch", r.epoch, "quarantine", strconv.FormatInt(r.quarantine/1000, 10)})
}

func (r *redis) flush() {
	for i := range r.leases {
		k := &r.leases[i]
		*k = leaseKey{id: k.id, timer: k.timer}
	}
	for i := range r.beats {
		r.beats[i].set = false
	}
	r.live = r.live[:0]
	r.others = nil
	r.epoch, r.lost = "", true
	r.sessionSet, r.sessionIdx, r.sessionAt = core.NewSessions(nil), nil, nil
	r.version++
	r.tap.flushed()
}

func (r *redis) setSessions(set *core.Sessions) {
	r.sessionSet = set
	r.sessionIdx = r.sessionIdx[:0]
	for _, id := range r.sessionSet.IDs {
		r.sessionIdx = append(r.sessionIdx, r.lease(id))
	}
	r.sessionAt = slices.Repeat([]int32{-1}, len(r.leases))
	for n, i := range r.sessionIdx {
		r.sessionAt[i] = int32(n)
	}
	r.version++
}

func (r *redis) copyData() *redis {
	c := *r
	c.leases, c.beats, c.live = slices.Clone(r.leases), slices.Clone(r.beats), slices.Clone(r.live)
	c.leaseIdx, c.beatIdx, c.others = maps.Clone(r.leaseIdx), maps.Clone(r.beatIdx), cloneObjects(r.others)
	return &c
}

// restore replaces all keys by an older copy's. It keeps the sessions, which belong to the application.
func (r *redis) restore(old *redis) {
	for i, k := range r.leases {
		restored := leaseKey{id: k.id}
		if i < len(old.leases) {
			restored = old.leases[i]
		}
		restored.timer = k.timer
		r.leases[i] = restored
	}
	r.live = r.live[:0]
	for i, b := range r.beats {
		restored := beatKey{id: b.id}
		if i < len(old.beats) {
			restored = old.beats[i]
		}
		restored.timer = b.timer
		r.beats[i] = restored
		if restored.set {
			r.live = append(r.live, int32(i))
		}
	}
	r.epoch, r.others = old.epoch, old.others
	r.version++
}

func (r *redis) nowMs(t int64) int64 {
	if r.at != 0 {
		return r.at
	}
	return r.clock.WallAt(t) / core.Millisecond
}

func (r *redis) nowUs(t int64) int64 { return r.clock.WallAt(t) / 1000 }

// trueOf returns the true time, at or after t, at which the server's clock reads ms.
func (r *redis) trueOf(t, ms int64) int64 {
	return t + r.clock.TrueOf(r.clock.WallAt(t), ms*core.Millisecond)
}

func (r *redis) lease(id string) int32 {
	i, ok := r.leaseIdx[id]
	if !ok {
		i = int32(len(r.leases))
		r.leases = append(r.leases, leaseKey{id: id})
		r.onLease(id)
		r.leaseIdx[id] = i
		for _, o := range r.alike {
			o.leases = append(o.leases, leaseKey{id: id})
		}
	}
	return i
}

func (r *redis) beatKey(id string) int32 {
	i, ok := r.beatIdx[id]
	if !ok {
		i = int32(len(r.beats))
		r.beats = append(r.beats, beatKey{id: id})
		r.beatIdx[id] = i
		for _, o := range r.alike {
			o.beats = append(o.beats, beatKey{id: id})
		}
	}
	return i
}

// expireLease deletes an expired lease. As in Redis, a lease has expired when the clock is past its end.
func (r *redis) expireLease(i int32, now int64) {
	if k := &r.leases[i]; now > k.expire && k.there() {
		r.deleteLease(i)
	}
}

func (r *redis) deleteLease(i int32) {
	r.leases[i].owner, r.leases[i].foreign = "", false
	r.version++
	r.tap.deleted(i)
}

func (r *redis) expireBeat(i int32, now int64) {
	if b := &r.beats[i]; b.set && now > b.expire {
		r.deleteBeat(i)
	}
}

func (r *redis) deleteBeat(i int32) {
	r.beats[i].set = false
	if at, ok := slices.BinarySearch(r.live, i); ok {
		r.live = slices.Delete(r.live, at, at+1)
	}
	r.version++
	r.tap.beatGone(i)
}

// parseEpoch splits an epoch into the run and the end of the quarantine in µs. If the text is no epoch, run is "".
func parseEpoch(epoch string) (run string, end int64) {
	run, digits, ok := strings.Cut(epoch, " ")
	end, err := strconv.ParseInt(digits, 10, 64)
	if !ok || err != nil || digits[0] < '0' {
		return "", 0
	}
	return run, end
}
