package core

import (
	"strconv"
	"strings"
)

// epochState is what the instance knows of the epoch of Redis' data (G9).
type epochState struct {
	value      string // poll:epoch as last read, "" before the first answer
	sent       Time   // stamp of the op that read it: an older op cannot bring an older epoch back
	quarantine Time   // until then nothing is granted; an upper bound
	fence      int64  // highest fence ever seen: every acquire carries it
	acks       int64  // replicas that must acknowledge an op in this epoch

	group    int64               // ns: quarantine that the epoch's group has agreed on
	outside  bool                // group is too short for this instance, which takes no part
	past     map[string]struct{} // epochs that were seen superseded; never ranged over
	rejected string              // epoch that a server must end

	disbelieved struct { // the last answer that was not believed
		sent  Time
		epoch string
	}
}

// Why an answer is not believed.
const (
	textSuperseded = "this Redis was superseded: requesting a new epoch"
	textUnderrated = "an instance with a shorter TTL began this epoch: requesting another"
)

// distrust returns why an answer in a's epoch is not believed, CauseNone and "" if it is.
//
// A superseded epoch belongs to an old master, or to old data, which does not know the grants made elsewhere since. And after a loss of
// data an instance that does not know this group may begin an epoch: its quarantine is as long as that instance's TTL, which may be
// shorter than the group's windows.
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

// tooShort reports whether this instance must not join a group that has agreed on this quarantine. It joins a group with a longer one
// than it needs, which is how a fleet changes its TTL.
func (k *terms) tooShort(group int64) bool {
	return group > 0 && group < max(k.cfg.TTL, k.cfg.Quarantine)
}

// quarantine returns how long a quarantine that this instance begins must last: as long as any of its group may believe in a lease.
func (k *terms) quarantine() int64 {
	if k.epoch.outside {
		return k.epoch.group
	}
	return max(k.cfg.TTL, k.cfg.Quarantine, k.epoch.group)
}

// reject returns a failed answer in place of one that is not believed. It has the server begin another epoch if op was sent after the
// one that read the present epoch; told reports that this is new. The op may have been executed, if a is of its own epoch.
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

type epochNews uint8

const (
	epochSame epochNews = iota
	epochFirst
	epochOther // Redis lost data, or may have
)

func (k *terms) learn(op *Op, a *Answer) epochNews {
	e := &k.epoch
	if a.Epoch == "" || op.Sent < e.sent {
		return epochSame
	}
	if a.Quarantine > 0 {
		end := k.now.Mono + Time(a.Quarantine)
		// Each end is an upper bound, so the earliest counts. If that has passed and Redis still reports a quarantine, its clock is
		// slower, and the new end counts, unless this answer is so old that its quarantine is over too.
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
		e.fence = max(e.fence, a.RedisNow) // lower fences are not of an attempt of this core (I8)
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

// LifeOf parses an epoch, "<run_id>:<attachments>:<acks> <end of quarantine>": the Redis process that began it, how often a replica had
// attached itself, and how many replicas must acknowledge. Without acknowledgements the form is "<run_id> <end of quarantine>".
func LifeOf(epoch string) (run, attachments string, acks int64) {
	life, _, _ := strings.Cut(epoch, " ")
	parts := strings.Split(life, ":")
	if len(parts) != 3 {
		return life, "", 0
	}
	acks, _ = strconv.ParseInt(parts[2], 10, 64)
	return parts[0], parts[1], acks
}

// follows returns why a's epoch followed another, CauseNone if it is not known.
func follows(before string, a *Answer) Cause {
	if a.Operator {
		return CauseOperator
	}
	was, attached, _ := LifeOf(before)
	if run, attachments, _ := LifeOf(a.Epoch); was == run && attached != "" && attached != attachments {
		return CauseAttached
	}
	return CauseNone
}

// Counted returns a if op counts. If too few replicas have acknowledged op, or its epoch ended meanwhile, Counted returns a failed
// answer (I9).
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

// forgot makes t a term of an earlier epoch, which must be reasserted (I6).
func (k *terms) forgot(t *term) { t.reassert, t.op = true, 0 }
