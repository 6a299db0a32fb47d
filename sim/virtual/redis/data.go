package redis

import (
	"cmp"
	"slices"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/sim/virtual/loop"
)

// Change is a write to the keys. The replicas apply it, and history shows it. Times are in ms of the server's clock.
type Change struct {
	Kind   changeKind
	N      int32    // number of the lease or heartbeat
	Name   string   // of another key, or the verb of a command
	Text   string   // owner, epoch or value
	Words  []string // fields of a hash or of an entry, or arguments of a command
	Expire int64    // of the key
	At     int64    // fence; true time of a heartbeat; the master's clock at a command
}

type changeKind uint8

// The kinds of changes. From Stored on, they concern keys that leases do not use.
const (
	Granted changeKind = iota
	Extended
	Deleted
	Fenced
	EpochSet
	Beaten
	BeatGone
	Flushed
	Stored
	Hashed
	Added // replicas execute its command
	Removed
	ran // a command that replicas execute themselves
)

// Config is what a server needs to know.
type Config struct {
	redisstore.Options // of the scripts

	Label  string // distinguishes its run IDs from other servers'
	Runs   int    // number of earlier runs
	Local  bool   // callers reach it at a loopback address
	Lua    bool   // an interpreter runs the scripts instead of their Go twins; Local includes it
	Loaded bool   // it knows all scripts from the start

	// Script alters a script before compilation. Older returns the script and keys of an earlier version's call. Both may
	// be nil.
	Script func(text string) string
	Older  func(op *core.Op, c redisstore.Call) (text string, keys []string, is bool)

	Wrote   func(Change) // receives the writes, as a replica does
	Publish func(core.Notice)
	Shout   func(text string) // publishes on other channels
	Named   func(id string)   // called when a lease is first named

	// Watch makes the server a sentinel, which has no keys.
	Watch func() Watch

	// Guests means that clients are programs with keys of their own. Keys that look like those of an unknown lease are then none. The
	// sessions are keys.
	Guests bool
}

// fenceLife is how long a fence outlives its last use, in ms.
const fenceLife = int64(redisstore.DefaultFenceTTL) / core.Millisecond

// numbers are the numbers of keys, which servers share. Its maps are never ranged over.
type numbers struct {
	leases, beats map[string]int32
	beatNames     []string         // keys of heartbeats
	leaseNames    map[int32]string // keys of leases with a prefix before their ID
	servers       []*database
}

// Data are a server's keys and clock, and the sessions.
type Data struct {
	database
	sessions
}

// database has the keys and the clock.
type database struct {
	cfg     *Config
	numbers *numbers
	Clock   loop.Clock
	at      int64 // time of a repeated command on the master's clock, ms; 0: none
	again   bool  // a master's command is being executed again

	Epoch   string // value of poll:epoch; "": no such key
	leases  []leaseKey
	beats   []beatKey
	live    []int32            // heartbeats that were set and not yet found expired, ascending
	scanned []int32            // result of the last scan
	others  map[string]*object // ranged over only in sorted order
	version uint64             // counts changes of a discovery's result, except expiries

	staleBeats map[int32]string // values forced on heartbeats

	touched func(name string) // receives each key that changes, "" for all; nil: nobody listens
	strange bool              // others may have a key that looks like a lease's or a heartbeat's
}

// sessions are the application's, with the result of the last discovery.
type sessions struct {
	sessionSet  *core.Sessions // unpaused
	paused      []string
	records     []string // keys of sessions
	sessionIdx  []int32  // lease of each session
	sessionAt   []int32  // session of each lease; -1 or missing: none
	look        *core.Look
	lookVersion uint64
	lookUntil   int64 // end of look's validity, ms of the server's clock
}

// Keys of an election: the leader key, and the prefix of the heartbeats.
const (
	electionLeader = "sovereign:leader"
	ElectionBeats  = "sovereign:heartbeat:"
)

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

// left returns the remaining life of a held lease in ns, 0 if it does not expire.
func (k *leaseKey) left(now int64) int64 {
	if k.expire == Forever {
		return 0
	}
	return max(1, k.expire-now) * core.Millisecond // 0 would mean unknown
}

func (k *leaseKey) held(now int64) core.Result {
	return core.Result{Outcome: core.OutHeld, Owner: k.owner, PTTL: k.left(now)}
}

func (d *database) expireFence(i int32, now int64) {
	if k := &d.leases[i]; now > k.fenceExpire && k.fenced() {
		d.deleteFence(i)
	}
}

func (d *database) deleteFence(i int32) {
	k := &d.leases[i]
	k.fence, k.fenceText, k.fenceForeign = 0, "", false
	d.touchFence(i)
}

func (d *database) refreshFence(i int32, now int64) {
	if k := &d.leases[i]; k.fenced() {
		k.fenceExpire = now + fenceLife
		d.touchFence(i)
	}
}

type beatKey struct {
	id     string
	text   string // "": the value is "1"
	set    bool
	since  int64 // true time at which it was last set anew
	expire int64 // ms
}

func (b *beatKey) left(now int64) int64 { return max(1, b.expire-now) * core.Millisecond }

// Wrote passes a change on, unless it is part of a command that is executed again.
func (d *database) Wrote(c Change) {
	if !d.again {
		d.cfg.Wrote(c)
	}
}

func (d *database) ranAgain(verb string, args []string, now int64) {
	if verb == "XGROUP" {
		d.touch(args[1])
	} else {
		d.touch(args[0])
	}
	d.Wrote(Change{Kind: ran, Name: verb, Words: slices.Clone(args), At: now})
}

// NowMs returns what the server's clock shows at the true time t, in ms.
func (d *database) NowMs(t int64) int64 {
	if d.at != 0 {
		return d.at
	}
	return d.Clock.WallAt(t) / core.Millisecond
}

func (d *database) nowUs(t int64) int64 { return d.Clock.WallAt(t) / 1000 }

// TrueOf returns the true time, at or after t, at which the server's clock reads ms.
func (d *database) TrueOf(t, ms int64) int64 {
	return t + d.Clock.TrueOf(d.Clock.WallAt(t), ms*core.Millisecond)
}

// Lease returns the number of a lease by its name.
func (d *database) Lease(id string) int32 {
	i, ok := d.numbers.leases[id]
	if !ok {
		i = int32(len(d.leases))
		d.cfg.Named(id)
		d.numbers.leases[id] = i
		for _, o := range d.numbers.servers {
			o.leases = append(o.leases, leaseKey{id: id})
		}
	}
	return i
}

// Beat returns the number of an instance's heartbeat.
func (d *database) Beat(id string) int32 { return d.beatAt(d.cfg.NodePrefix, id) }

func (d *database) beatAt(prefix, id string) int32 {
	i, ok := d.numbers.beats[id]
	if !ok {
		i = int32(len(d.beats))
		d.numbers.beats[id] = i
		d.numbers.beatNames = append(d.numbers.beatNames, prefix+id)
		for _, o := range d.numbers.servers {
			o.beats = append(o.beats, beatKey{id: id})
		}
	}
	return i
}

// BeatSince returns the true time at which an instance's heartbeat was last set anew.
func (d *database) BeatSince(instance string) int64 { return d.beats[d.Beat(instance)].since }

// expireLease deletes an expired lease. As in Redis, a lease has expired when the clock is past its end.
func (d *database) expireLease(i int32, now int64) {
	if k := &d.leases[i]; now > k.expire && k.there() {
		d.DeleteLease(i)
	}
}

// DeleteLease deletes a lease by its number.
func (d *database) DeleteLease(i int32) {
	d.leases[i].owner, d.leases[i].foreign = "", false
	d.version++
	d.touchLease(i)
	d.Wrote(Change{Kind: Deleted, N: i})
}

func (d *database) expireBeat(i int32, now int64) {
	if b := &d.beats[i]; b.set && now > b.expire {
		d.deleteBeat(i)
	}
}

func (d *database) deleteBeat(i int32) {
	d.beats[i].set = false
	if at, ok := slices.BinarySearch(d.live, i); ok {
		d.live = slices.Delete(d.live, at, at+1)
	}
	d.version++
	d.touchBeat(i)
	d.Wrote(Change{Kind: BeatGone, N: i})
}

func (d *database) set(i int32, owner string, expire int64) {
	k := &d.leases[i]
	if k.owner != owner || k.expire > expire {
		d.version++
	}
	k.owner, k.expire = owner, expire
	d.touchLease(i)
	d.Wrote(Change{Kind: Granted, N: i, Text: owner, Expire: expire})
}

func (d *database) extend(i int32, expire int64) {
	k := &d.leases[i]
	if k.expire > expire {
		d.version++
	}
	k.expire = expire
	d.touchLease(i)
	d.Wrote(Change{Kind: Extended, N: i, Text: k.owner, Expire: expire})
}

func (d *database) setFence(i int32, fence, expire int64) {
	k := &d.leases[i]
	k.fence, k.fenceExpire = fence, expire
	d.touchFence(i)
	d.Wrote(Change{Kind: Fenced, N: i, At: fence, Expire: expire})
}

func (d *database) setEpoch(epoch string) {
	d.Epoch = epoch
	d.touch(d.cfg.EpochKey)
	d.Wrote(Change{Kind: EpochSet, Text: epoch})
}

func (d *database) putBeat(t int64, i int32, expire int64) bool {
	b := &d.beats[i]
	joined := !b.set
	b.set, b.expire = true, expire
	d.touchBeat(i)
	d.Wrote(Change{Kind: Beaten, N: i, Text: cmp.Or(b.text, "1"), Expire: expire, At: t})
	if !joined {
		return false
	}
	b.since = t
	d.version++
	at, _ := slices.BinarySearch(d.live, i)
	d.live = slices.Insert(d.live, at, i)
	return true
}

// other returns an object or nil, after deleting it if it has expired.
func (d *database) other(name string, now int64) *object {
	o := d.others[name]
	if o != nil && now > o.expire {
		d.remove(name)
		return nil
	}
	return o
}

func (d *database) store(name string, o *object) *object {
	if d.others == nil {
		d.others = map[string]*object{}
	}
	d.others[name] = o
	return o
}

func (d *database) storeText(name, text string, expire int64) {
	d.store(name, &object{text: text, expire: expire})
	d.touch(name)
	d.Wrote(Change{Kind: Stored, Name: name, Text: text, Expire: expire})
}

func (d *database) remove(name string) {
	delete(d.others, name)
	d.touch(name)
	d.Wrote(Change{Kind: Removed, Name: name})
}

// touch tells the clients that a key has changed.
func (d *database) touch(name string) {
	if d.touched != nil {
		d.touched(name)
	}
}

func (d *database) touchLease(i int32) {
	if d.touched != nil {
		d.touched(d.leaseName(i))
	}
}

func (d *database) touchFence(i int32) {
	if d.touched != nil {
		d.touched(d.fenceName(i))
	}
}

func (d *database) touchBeat(i int32) {
	if d.touched != nil {
		d.touched(d.numbers.beatNames[i])
	}
}

func (d *database) leaseName(i int32) string {
	if name, ok := d.numbers.leaseNames[i]; ok {
		return name
	}
	id := d.leases[i].id
	if id == electionLeader {
		return id
	}
	return d.cfg.LeasePrefix + id
}

func (d *database) fenceName(i int32) string { return "{" + d.leaseName(i) + "}:fence" }
