package redis

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/leasestorm/leasestorm/internal/core"
)

func (d *Data) flush() {
	for i := range d.leases {
		k := &d.leases[i]
		*k = leaseKey{id: k.id}
	}
	for i := range d.beats {
		d.beats[i].set = false
	}
	d.live = d.live[:0]
	d.others = nil
	d.Epoch = ""
	d.sessionSet, d.sessionIdx, d.sessionAt = core.NewSessions(nil), nil, nil
	d.paused, d.records = nil, nil
	d.version++
	d.touch("")
	d.Wrote(Change{Kind: Flushed})
}

// DeleteKeys keeps the sessions, which belong to the application.
func (d *Data) DeleteKeys() {
	set, paused := d.sessionSet, d.paused
	d.flush()
	d.SetSessions(set, paused...)
}

// SetSessions makes set and the paused ones the sessions that the server holds.
func (d *Data) SetSessions(set *core.Sessions, paused ...string) {
	d.sessionSet, d.paused = set, paused
	d.sessionIdx = d.sessionIdx[:0]
	for _, id := range d.sessionSet.IDs {
		d.sessionIdx = append(d.sessionIdx, d.Lease(id))
	}
	d.sessionAt = slices.Repeat([]int32{-1}, len(d.leases))
	for n, i := range d.sessionIdx {
		d.sessionAt[i] = int32(n)
	}
	d.version++
	if d.cfg.Guests {
		d.putRecords()
	}
}

// putRecords makes the keys of the sessions those that the application wants.
func (d *Data) putRecords() {
	before := d.records
	d.records = nil
	put := func(id string, paused bool) {
		name, text := sessionPrefix+id, fmt.Sprintf(`{"id":%q,"name":"session","endpoint":"/poll/%s","isPaused":%t}`, id, id, paused)
		d.records = append(d.records, name)
		if o := d.others[name]; o == nil || o.kind != objString || o.text != text {
			d.store(name, &object{text: text, expire: Forever})
			d.touch(name)
		}
	}
	for _, id := range d.sessionSet.IDs {
		put(id, false)
	}
	for _, id := range d.paused {
		put(id, true)
	}
	slices.Sort(d.records)
	for _, name := range before {
		if _, kept := slices.BinarySearch(d.records, name); !kept && d.others[name] != nil {
			delete(d.others, name)
			d.touch(name)
		}
	}
}

const sessionPrefix = "session:"

// Copy returns a copy of the keys.
func (d *Data) Copy() *Data {
	return &Data{
		database: database{
			leases: slices.Clone(d.leases), beats: slices.Clone(d.beats), Epoch: d.Epoch, others: cloneObjects(d.others), strange: d.strange,
		},
		sessions: sessions{records: d.records},
	}
}

// Restore replaces all keys by an older copy's. It keeps the sessions, which belong to the application.
func (d *Data) Restore(old *Data) {
	for i, k := range d.leases {
		restored := leaseKey{id: k.id}
		if i < len(old.leases) {
			restored = old.leases[i]
		}
		d.leases[i] = restored
	}
	d.live = d.live[:0]
	for i, b := range d.beats {
		restored := beatKey{id: b.id}
		if i < len(old.beats) {
			restored = old.beats[i]
		}
		d.beats[i] = restored
		if restored.set {
			d.live = append(d.live, int32(i))
		}
	}
	d.Epoch, d.others, d.strange, d.records = old.Epoch, old.others, old.strange, old.records
	d.version++
	if d.cfg.Guests {
		d.SetSessions(d.sessionSet, d.paused...)
	}
	d.touch("")
}

// Present yields the changes that make the present keys, after deleting the expired ones.
func (d *Data) Present(t int64, yield func(Change)) {
	now := d.NowMs(t)
	yield(Change{Kind: EpochSet, Text: d.Epoch})
	for i := range int32(len(d.leases)) {
		d.expireLease(i, now)
		if k := &d.leases[i]; k.owner != "" {
			yield(Change{Kind: Granted, N: i, Text: k.owner, Expire: k.expire})
		}
	}
	for i := range int32(len(d.beats)) {
		d.expireBeat(i, now)
		if b := &d.beats[i]; b.set {
			yield(Change{Kind: Beaten, N: i, Expire: b.expire})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.others)) {
		switch o := d.other(name, now); {
		case o == nil:
		case o.kind == objString:
			yield(Change{Kind: Stored, Name: name, Text: o.text, Expire: o.expire})
		case o.kind == objHash:
			yield(Change{Kind: Hashed, Name: name, Words: o.hash})
		}
	}
}

// Same reports whether two servers hold the same data.
func Same(d, o *Data) bool {
	return d.Epoch == o.Epoch && slices.EqualFunc(d.leases, o.leases, func(x, y leaseKey) bool {
		return x.owner == y.owner && x.expire == y.expire && x.fence == y.fence
	}) && reflect.DeepEqual(cloneObjects(d.others), cloneObjects(o.others))
}

// LeaseID returns the name of a lease by its number.
func (d *Data) LeaseID(i int32) string { return d.leases[i].id }

// BeatID returns the instance of a heartbeat by its number.
func (d *Data) BeatID(i int32) string { return d.beats[i].id }

// End returns the last ms at which a heartbeat or else a lease lives, if it ends.
func (d *Data) End(beat bool, i int32) (ms int64, ends bool) {
	if beat {
		return d.beats[i].expire, d.beats[i].set
	}
	k := &d.leases[i]
	return k.expire, k.owner != "" && k.expire != Forever
}

// Expire deletes a heartbeat or else a lease if it has expired.
func (d *Data) Expire(beat bool, i int32, now int64) {
	if beat {
		d.expireBeat(i, now)
	} else {
		d.expireLease(i, now)
	}
}

// Ends yields the true times at which leases and heartbeats expire.
func (d *Data) Ends(t int64, yield func(at int64)) {
	for i := range int32(len(d.leases)) {
		if end, ok := d.End(false, i); ok {
			yield(d.TrueOf(t, end+1))
		}
	}
	for _, i := range d.live {
		yield(d.TrueOf(t, d.beats[i].expire+1))
	}
}

// EndOf returns the true time at which a known lease expires.
func (d *Data) EndOf(t int64, id string) (at int64, ends bool) {
	i, known := d.numbers.leases[id]
	if !known {
		return 0, false
	}
	end, ok := d.End(false, i)
	return d.TrueOf(t, end+1), ok
}

// QuarantineEnd returns the true time at which the epoch's quarantine ends, if there is an epoch.
func (d *Data) QuarantineEnd(t int64) (at int64, ok bool) {
	run, end := parseEpoch(d.Epoch)
	return d.TrueOf(t, end/1000+1), run != ""
}

// Owners returns the owner of each lease, "" if it is free.
func (d *Data) Owners() []string {
	all := make([]string, len(d.leases))
	for i := range d.leases {
		all[i] = d.leases[i].owner
	}
	return all
}

// Step steps the clock by nanoseconds at true time t, so keys may expire at once.
func (d *Data) Step(t, by int64) {
	d.Clock.Rebase(t)
	d.Clock.Wall += by
	d.version++
	now := d.NowMs(t)
	for i := range d.leases {
		d.expireLease(int32(i), now)
	}
	for i := range d.beats {
		d.expireBeat(int32(i), now)
	}
}

// ForceBeat forces a value on an instance's heartbeat, "" none.
func (d *Data) ForceBeat(instance, text string) {
	i := d.Beat(instance)
	if text == "" {
		delete(d.staleBeats, i)
		return
	}
	if d.staleBeats == nil {
		d.staleBeats = map[int32]string{}
	}
	d.staleBeats[i] = text
	if b := &d.beats[i]; b.set {
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

// scan is SCAN of the heartbeats. The slice is valid until the next call.
func (d *Data) scan(now int64) []int32 {
	for n := len(d.live) - 1; n >= 0; n-- {
		d.expireBeat(d.live[n], now)
	}
	// SCAN has no order. Sorted names do not depend on how the scripts run.
	d.scanned = append(d.scanned[:0], d.live...)
	slices.SortFunc(d.scanned, func(a, b int32) int { return strings.Compare(d.beats[a].id, d.beats[b].id) })
	return d.scanned
}

// ownersAt reads sessions and owners. Discoveries share the result until it changes or a lease expires.
func (d *Data) ownersAt(t int64) *core.Look {
	if now := d.NowMs(t); d.look == nil || d.lookVersion != d.version || now > d.lookUntil {
		d.readOwners(now)
	}
	return d.look
}

// readOwners reads in memory order. It first deletes expired leases in session order, as the scripts do.
func (d *Data) readOwners(now int64) {
	owners := make([]string, len(d.sessionSet.IDs))
	until, over := Forever, false
	for i, n := range d.sessionAt {
		if k := &d.leases[i]; n >= 0 {
			over = over || now > k.expire && k.there()
			if k.owner != "" {
				owners[n] = k.owner
				until = min(until, k.expire)
			}
		}
	}
	if over {
		for _, i := range d.sessionIdx {
			d.expireLease(i, now)
		}
		d.readOwners(now)
		return
	}
	d.look = &core.Look{Sessions: d.sessionSet, Owners: owners}
	d.lookVersion, d.lookUntil = d.version, until
}
