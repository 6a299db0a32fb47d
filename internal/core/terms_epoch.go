package core

import (
	"strconv"
	"strings"
)

// epochState is what the instance knows of the life of Redis' data (G9).
type epochState struct {
	value      string // poll:epoch as last told, "" before the first answer
	sent       Time   // stamp of the op that told it: an older op cannot bring an older epoch back
	quarantine Time   // until then nothing is granted; an upper bound
	fence      int64  // the highest fence ever seen: every acquire carries it
	acks       int64  // how many replicas have to acknowledge what counts in it

	group    int64               // ns: the quarantine that the epoch's group has agreed on
	outside  bool                // which is too short for this instance: it has no part in what the others do
	past     map[string]struct{} // epochs that were seen superseded; never ranged over
	rejected string              // an epoch that a server is to end

	disbelieved struct { // the last answer that was not believed
		sent  Time
		epoch string
	}
}

// Why an answer is not believed.
const (
	textSuperseded = "this Redis is one that was superseded: it is asked to begin a new epoch"
	textUnderrated = "an instance with a shorter TTL began this epoch: another is asked for"
)

// distrust returns why an answer in a's epoch is worth nothing, "" if it is worth what it says.
//
// An epoch that was seen superseded is that of an old master, or of old data: what was granted elsewhere meanwhile it does not
// know. And after a loss of data an epoch may be begun by who has never heard of this group: its quarantine is as long as that
// one's TTL, and not as long as the group's leases are believed in.
func (k *terms) distrust(a *Answer) (cause Cause, text string) {
	e := &k.epoch
	if _, past := e.past[a.Epoch]; past {
		return CauseSuperseded, textSuperseded
	}
	if a.Epoch != e.value && k.tooShort(a.Group) && e.value != "" && !e.outside {
		return CauseGroup, textUnderrated
	}
	return CauseNone, ""
}

// tooShort reports whether a group that has agreed on this quarantine is none for this instance. One that has agreed on more than
// it needs is: so a fleet gets another TTL (docs/guarantees.md, G9).
func (k *terms) tooShort(group int64) bool {
	return group > 0 && group < max(k.cfg.TTL, k.cfg.Quarantine)
}

// quarantine is how long one has to last that this instance begins: as long as any of its group may believe in a lease.
func (k *terms) quarantine() int64 {
	if k.epoch.outside {
		return k.epoch.group
	}
	return max(k.cfg.TTL, k.cfg.Quarantine, k.epoch.group)
}

// reject makes of an answer that is not believed one that says nothing, and has the server begin another epoch if it was asked
// after the present one was heard of. What the op did there it may
// have done. told says that this is news.
func (k *terms) reject(op *Op, a *Answer, text string) (said Answer, told bool) {
	e := &k.epoch
	if told = op.Sent > e.sent && e.rejected != a.Epoch; told {
		e.rejected = a.Epoch
	}
	if op.Sent > e.disbelieved.sent {
		e.disbelieved.sent, e.disbelieved.epoch = op.Sent, a.Epoch
	}
	failure := FailRefused
	if op.Epoch == a.Epoch {
		failure = FailUnknown
	}
	return Answer{Seq: a.Seq, Failure: failure, Text: text, Epoch: a.Epoch}, told
}

// epochNews is what an answer told of the epoch.
type epochNews uint8

const (
	epochSame epochNews = iota
	epochFirst
	epochOther // Redis lost data, or may have
)

// learn takes from an answer what it says of the epoch.
func (k *terms) learn(op *Op, a *Answer) epochNews {
	e := &k.epoch
	if a.Epoch == "" || op.Sent < e.sent {
		return epochSame
	}
	if a.Quarantine > 0 {
		end := k.now.Mono + Time(a.Quarantine)
		// Of several answers the earliest end is nearest. One that has come and was not the end was told by a clock that runs slower,
		// unless this answer is so old that what it says is over.
		if over := e.quarantine <= k.now.Mono && op.Sent+Time(a.Quarantine) > k.now.Mono; a.Epoch != e.value || end < e.quarantine || over {
			e.quarantine = end
		}
	} else {
		e.quarantine = 0
	}
	e.sent = op.Sent
	if a.Epoch == e.value {
		return epochSame
	}
	news := epochFirst
	if e.value == "" {
		e.fence = max(e.fence, a.RedisNow) // fences of before are of no attempt of this core (I8)
	} else {
		news = epochOther
		if e.past == nil {
			e.past = map[string]struct{}{}
		}
		e.past[e.value] = struct{}{}
		k.clock.redis = false
	}
	e.value = a.Epoch
	_, _, e.acks = LifeOf(a.Epoch)
	e.outside, e.group = k.tooShort(a.Group), a.Group
	return news
}

// LifeOf reads an epoch, "<run_id>:<attachments>:<acks> <end of quarantine>": by what process it was begun, how often a replica had
// attached itself, and how many have to acknowledge. Where they need not, it is "<run_id> <end of quarantine>".
func LifeOf(epoch string) (run, attachments string, acks int64) {
	life, _, _ := strings.Cut(epoch, " ")
	parts := strings.Split(life, ":")
	if len(parts) != 3 {
		return life, "", 0
	}
	acks, _ = strconv.ParseInt(parts[2], 10, 64)
	return parts[0], parts[1], acks
}

// follows returns why one epoch followed another, where that shows.
func follows(before, now string) Cause {
	was, attached, _ := LifeOf(before)
	if run, attachments, _ := LifeOf(now); was == run && attached != "" && attached != attachments {
		return CauseAttached
	}
	return CauseNone
}

// Counted returns a, or, where what op did must not be believed because too few replicas have it, or may not have kept it, an answer
// that says so (I9).
func (a *Answer) Counted(op *Op) *Answer {
	var text string
	switch {
	case op.Confirm == 0 || a.Failure != FailNone || a.Stale:
		return a
	case a.Acked < op.Confirm:
		text = strconv.FormatInt(a.Acked, 10) + " of " + strconv.FormatInt(op.Confirm, 10) + " replicas acknowledged"
	case op.Probes() && a.After != op.Epoch:
		text = "a replica attached itself, or the epoch ended otherwise, before it was acknowledged"
	default:
		return a
	}
	return &Answer{Seq: a.Seq, Failure: FailUncounted, Text: text, Epoch: a.Epoch}
}

// forgot makes t a term of an epoch that is over: it is asserted again, and nothing begins under it before that is confirmed (I6).
func (k *terms) forgot(t *term) { t.reassert, t.op = true, 0 }
