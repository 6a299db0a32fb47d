// Package redis models a Redis server in virtual time: its keys, commands and the store's scripts, on its own clock. It knows neither the
// network nor who calls it.
package redis

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/sim/virtual/loop"
)

// fenceLife is how long a fence outlives its last use, in ms.
const fenceLife = int64(redisstore.DefaultFenceTTL) / core.Millisecond

// Server holds a server's keys and executes the store's scripts on them, atomically, on the server's own clock.
type Server struct {
	refusals
	Config  Config
	wire    redisstore.Wire // of cfg
	numbers *numbers

	RunID string
	runs  int
	Clock loop.Clock

	SyncFull    int // full synchronizations of replicas with this run
	SyncPartial int // partial synchronizations
	Connected   int
	lived       string

	Epoch string // value of poll:epoch; "": no such key
	use   use
	lost  bool   // all data was lost at least once
	why   string // why the current script was refused
	dirty bool   // the current script has written

	leases  []leaseKey
	beats   []beatKey
	live    []int32            // heartbeats that were set and not yet found expired, ascending
	scanned []int32            // result of the last scan
	others  map[string]*object // ranged over only in sorted order
	fed     []string           // streams that got an entry in the current command
	at      int64              // time of a repeated command on the master's clock, ms; 0: none

	staleBeats map[int32]string // values forced on heartbeats

	sessionSet  *core.Sessions // unpaused
	sessionIdx  []int32        // lease of each session
	sessionAt   []int32        // session of each lease; -1 or missing: none
	version     uint64         // counts changes of a discovery's result, except expiries
	look        *core.Look
	lookVersion uint64
	lookUntil   int64 // end of look's validity, ms of the server's clock

	again bool // a master's command is being executed again

	loaded      uint16            // loaded scripts, a bit for each kind of op
	scripts     map[string]string // loaded scripts without a twin, by SHA-1; never ranged over
	interpreter *interpreter      // nil: not used yet
}

// Config is what a server needs to know.
type Config struct {
	redisstore.Options // of the scripts

	Label  string  // distinguishes its run IDs from other servers'
	Runs   int     // number of earlier runs
	Like   *Server // a server without keys, whose numbers of keys it shares; nil: none
	Local  bool    // callers reach it at a loopback address
	Lua    bool    // an interpreter runs the scripts instead of their Go twins
	Loaded bool    // it knows all scripts from the start

	// Script alters a script before compilation. Begun is Seams.Begun. Older returns the script and keys of an earlier version's call.
	// All may be nil.
	Script func(text string) string
	Begun  func(condition string, lost bool)
	Older  func(op *core.Op, c redisstore.Call) (text string, keys []string, is bool)

	Wrote   func(Change) // receives the writes, as a replica does
	Publish func(core.Notice)
	Shout   func(text string) // publishes on other channels
	Named   func(id string)   // called when a lease is first named
}

// numbers are the numbers of keys, which servers share. Its maps are never ranged over.
type numbers struct {
	leases, beats map[string]int32
	servers       []*Server
}

type leaseKey struct {
	id           string
	owner        string // "": no such key
	expire       int64  // ms; the key lives while now ≤ expire
	fence        int64  // 0: the fence key holds none
	fenceExpire  int64  // ms
	foreign      bool   // the key exists and holds no string
	fenceForeign bool   // the same for the fence key
	fenceText    string // string in the fence key that is no fence, else ""
}

func (k *leaseKey) there() bool { return k.owner != "" || k.foreign }

func (k *leaseKey) fenced() bool { return k.fence != 0 || k.fenceText != "" || k.fenceForeign }

// forever is the expiry of a key without one.
const Forever = int64(1) << 62

// left returns the remaining life of a held lease in ns, 0 if it does not expire.
func (k *leaseKey) left(now int64) int64 {
	if k.expire == Forever {
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
}

func (b *beatKey) left(now int64) int64 { return max(1, b.expire-now) * core.Millisecond }

func New(cfg Config) *Server {
	cfg.LeasePrefix = cmp.Or(cfg.LeasePrefix, redisstore.DefaultLeasePrefix)
	cfg.NodePrefix = cmp.Or(cfg.NodePrefix, redisstore.DefaultNodePrefix)
	cfg.EpochKey = cmp.Or(cfg.EpochKey, redisstore.DefaultEpochKey)
	cfg.Channel = cmp.Or(cfg.Channel, redisstore.DefaultChannel)
	if cfg.Named == nil {
		cfg.Named = func(string) {}
	}
	if cfg.Shout == nil {
		cfg.Shout = func(string) {}
	}
	wire, err := redisstore.NewWire(cfg.Options)
	if err != nil {
		panic(err) // virtual.Config.Validate refuses such options
	}
	r := &Server{
		Config: cfg, wire: wire, numbers: &numbers{leases: map[string]int32{}, beats: map[string]int32{}}, runs: cfg.Runs,
		sessionSet: core.NewSessions(nil), scripts: map[string]string{},
	}
	if cfg.Like != nil {
		r.numbers = cfg.Like.numbers
	}
	r.numbers.servers = append(r.numbers.servers, r)
	r.restart()
	if cfg.Loaded {
		r.loaded = ^uint16(0)
	}
	return r
}

// Start begins a run at true time t, with the present data.
func (r *Server) Start(t int64) {
	r.Forget()
	r.restart()
	r.use.since = r.Clock.WallAt(t)
}

func (r *Server) restart() {
	r.runs++
	r.use = use{}
	r.RunID, r.SyncFull, r.SyncPartial = "run"+r.Config.Label+strconv.Itoa(r.runs), 0, 0
	r.Relive()
	r.version++
}

// Life is life.lua. It returns the prefix of an epoch.
func (r *Server) Life() string {
	if r.Config.Replicas == 0 {
		return r.RunID
	}
	return r.lived
}

// Relive starts a new life, which lasts until the run ends or another replica attaches.
func (r *Server) Relive() {
	if r.Config.Replicas > 0 {
		r.lived = r.RunID + ":" + strconv.Itoa(r.SyncFull+r.SyncPartial) + ":" + strconv.Itoa((r.Config.Replicas+1)/2)
	}
}

// Bootstrap declares that no data was lost, so the present run needs no quarantine.
func (r *Server) Bootstrap() {
	r.Epoch = r.Life() + " 0"
	cmdHSet(r, 0, []string{r.groupKey(), "epoch", r.Epoch, "quarantine", strconv.FormatInt(r.Config.Quarantine.Microseconds(), 10)})
}

func (r *Server) flush() {
	for i := range r.leases {
		k := &r.leases[i]
		*k = leaseKey{id: k.id}
	}
	for i := range r.beats {
		r.beats[i].set = false
	}
	r.live = r.live[:0]
	r.others = nil
	r.Epoch, r.lost = "", true
	r.sessionSet, r.sessionIdx, r.sessionAt = core.NewSessions(nil), nil, nil
	r.version++
	r.Wrote(Change{Kind: Flushed})
}

func (r *Server) SetSessions(set *core.Sessions) {
	r.sessionSet = set
	r.sessionIdx = r.sessionIdx[:0]
	for _, id := range r.sessionSet.IDs {
		r.sessionIdx = append(r.sessionIdx, r.Lease(id))
	}
	r.sessionAt = slices.Repeat([]int32{-1}, len(r.leases))
	for n, i := range r.sessionIdx {
		r.sessionAt[i] = int32(n)
	}
	r.version++
}

func (r *Server) Copy() *Server {
	c := *r
	c.leases, c.beats, c.live = slices.Clone(r.leases), slices.Clone(r.beats), slices.Clone(r.live)
	c.others = cloneObjects(r.others)
	return &c
}

// Restore replaces all keys by an older copy's. It keeps the sessions, which belong to the application.
func (r *Server) Restore(old *Server) {
	for i, k := range r.leases {
		restored := leaseKey{id: k.id}
		if i < len(old.leases) {
			restored = old.leases[i]
		}
		r.leases[i] = restored
	}
	r.live = r.live[:0]
	for i, b := range r.beats {
		restored := beatKey{id: b.id}
		if i < len(old.beats) {
			restored = old.beats[i]
		}
		r.beats[i] = restored
		if restored.set {
			r.live = append(r.live, int32(i))
		}
	}
	r.Epoch, r.others = old.Epoch, old.others
	r.version++
}

func (r *Server) NowMs(t int64) int64 {
	if r.at != 0 {
		return r.at
	}
	return r.Clock.WallAt(t) / core.Millisecond
}

func (r *Server) nowUs(t int64) int64 { return r.Clock.WallAt(t) / 1000 }

// TrueOf returns the true time, at or after t, at which the server's clock reads ms.
func (r *Server) TrueOf(t, ms int64) int64 {
	return t + r.Clock.TrueOf(r.Clock.WallAt(t), ms*core.Millisecond)
}

func (r *Server) Lease(id string) int32 {
	i, ok := r.numbers.leases[id]
	if !ok {
		i = int32(len(r.leases))
		r.Config.Named(id)
		r.numbers.leases[id] = i
		for _, o := range r.numbers.servers {
			o.leases = append(o.leases, leaseKey{id: id})
		}
	}
	return i
}

func (r *Server) Beat(id string) int32 {
	i, ok := r.numbers.beats[id]
	if !ok {
		i = int32(len(r.beats))
		r.numbers.beats[id] = i
		for _, o := range r.numbers.servers {
			o.beats = append(o.beats, beatKey{id: id})
		}
	}
	return i
}

// BeatSince returns the true time at which an instance's heartbeat was last set anew.
func (r *Server) BeatSince(instance string) int64 { return r.beats[r.Beat(instance)].since }

// ExpireLease deletes an expired lease. As in Redis, a lease has expired when the clock is past its end.
func (r *Server) ExpireLease(i int32, now int64) {
	if k := &r.leases[i]; now > k.expire && k.there() {
		r.DeleteLease(i)
	}
}

func (r *Server) DeleteLease(i int32) {
	r.leases[i].owner, r.leases[i].foreign = "", false
	r.version++
	r.Wrote(Change{Kind: Deleted, N: i})
}

func (r *Server) ExpireBeat(i int32, now int64) {
	if b := &r.beats[i]; b.set && now > b.expire {
		r.deleteBeat(i)
	}
}

func (r *Server) deleteBeat(i int32) {
	r.beats[i].set = false
	if at, ok := slices.BinarySearch(r.live, i); ok {
		r.live = slices.Delete(r.live, at, at+1)
	}
	r.version++
	r.Wrote(Change{Kind: BeatGone, N: i})
}

func (r *Server) LeaseID(i int32) string { return r.leases[i].id }
func (r *Server) BeatID(i int32) string  { return r.beats[i].id }

// LeaseEnd returns the last ms at which a lease lives, if it ends.
func (r *Server) LeaseEnd(i int32) (ms int64, ends bool) {
	k := &r.leases[i]
	return k.expire, k.owner != "" && k.expire != Forever
}

func (r *Server) BeatEnd(i int32) (ms int64, ends bool) { return r.beats[i].expire, r.beats[i].set }

// Ends yields the true times at which leases and heartbeats expire.
func (r *Server) Ends(t int64, yield func(at int64)) {
	for i := range int32(len(r.leases)) {
		if end, ok := r.LeaseEnd(i); ok {
			yield(r.TrueOf(t, end+1))
		}
	}
	for _, i := range r.live {
		yield(r.TrueOf(t, r.beats[i].expire+1))
	}
}

// EndOf returns the true time at which a known lease expires.
func (r *Server) EndOf(t int64, id string) (at int64, ends bool) {
	i, known := r.numbers.leases[id]
	if !known {
		return 0, false
	}
	end, ok := r.LeaseEnd(i)
	return r.TrueOf(t, end+1), ok
}

// QuarantineEnd returns the true time at which the epoch's quarantine ends, if there is an epoch.
func (r *Server) QuarantineEnd(t int64) (at int64, ok bool) {
	run, end := parseEpoch(r.Epoch)
	return r.TrueOf(t, end/1000+1), run != ""
}

// Owners returns the owner of each lease, "" if it is free.
func (r *Server) Owners() []string {
	all := make([]string, len(r.leases))
	for i := range r.leases {
		all[i] = r.leases[i].owner
	}
	return all
}

// Step steps the clock by nanoseconds at true time t, so keys may expire at once.
func (r *Server) Step(t, by int64) {
	r.Clock.Rebase(t)
	r.Clock.Wall += by
	r.version++
	now := r.NowMs(t)
	for i := range r.leases {
		r.ExpireLease(int32(i), now)
	}
	for i := range r.beats {
		r.ExpireBeat(int32(i), now)
	}
}

// ForceBeat forces a value on an instance's heartbeat, "" none.
func (r *Server) ForceBeat(instance, text string) {
	i := r.Beat(instance)
	if text == "" {
		delete(r.staleBeats, i)
		return
	}
	if r.staleBeats == nil {
		r.staleBeats = map[int32]string{}
	}
	r.staleBeats[i] = text
	if b := &r.beats[i]; b.set {
		b.text = text
	}
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
