package term

import "strconv"

// Answer is the part of an answer that the kernel judges. The results for each item are for the kernel's caller.
type Answer struct {
	Epoch      string // present epoch, "" if unknown
	After      string // epoch after the acknowledgement, for an op that probes; "" if unknown
	Stale      bool   // the op was void: its epoch is not the present one
	Operator   bool   // with Group: an operator's command began the epoch
	Quarantine int64  // ns of quarantine left when the store answered, 0 if none
	Acked      int64  // replicas that acknowledged the op's writes, 0 if unknown
	Group      int64  // ns: quarantine that the epoch's group has agreed on; 0 if the op's epoch is the present one
	RedisNow   int64  // Redis TIME in µs, 0 if unknown
}

// Verdict says whether to believe an answer and, if not, why.
type Verdict struct {
	Failure Failure // FailNone: it is believed
	Cause   Cause   // of another one: not CauseNone if its epoch is not believed
	Text    string
}

// Why an answer is not believed.
const (
	textSuperseded = "this Redis was superseded: requesting a new epoch"
	textUnderrated = "an instance with a shorter TTL began this epoch: requesting another"
)

// Judge returns the verdict on the answer to op: that of the first failed check.
//
// A superseded epoch belongs to an old master, or to old data, which does not know the grants made elsewhere since. And after a
// loss of data an instance that does not know this group may begin an epoch: its quarantine is as long as that instance's TTL,
// which may be shorter than the group's windows. If an answer is not believed, but its op is of the same epoch as the answer, Redis
// may have executed the op.
func (k *Kernel) Judge(op *Op, a *Answer) Verdict {
	e := &k.epoch
	v := Verdict{Failure: FailRefused}
	if op.Epoch == a.Epoch {
		v.Failure = FailUnknown
	}
	if _, past := e.past[a.Epoch]; past {
		v.Cause, v.Text = CauseSuperseded, textSuperseded
		return v
	}
	if a.Epoch != e.value && k.tooShort(a.Group) && e.value != "" && !e.outside {
		v.Cause, v.Text = CauseGroup, textUnderrated
		return v
	}
	return Counted(op, a)
}

// Counted returns the verdict on an answer whose epoch is believed. The answer does not count if too few replicas have acknowledged
// op, or if the epoch ended before they did (I9).
func Counted(op *Op, a *Answer) Verdict {
	switch {
	case op.Confirm == 0 || a.Stale:
		return Verdict{}
	case a.Acked < op.Confirm:
		return Verdict{Failure: FailUncounted,
			Text: strconv.FormatInt(a.Acked, 10) + " of " + strconv.FormatInt(op.Confirm, 10) + " replicas acknowledged"}
	case op.Probes() && a.After != op.Epoch:
		return Verdict{Failure: FailUncounted,
			Text: "a replica attached itself, or the epoch ended otherwise, before it was acknowledged"}
	default:
		return Verdict{}
	}
}

// Reject notes an answer whose epoch is not believed. If op was sent after the op that read the present epoch, the server is made
// to begin another epoch; told reports that this is new.
func (k *Kernel) Reject(op *Op, a *Answer) (told bool) {
	e := &k.epoch
	if told = op.Sent > e.sent && e.rejected != a.Epoch; told {
		e.rejected = a.Epoch
	}
	if op.Sent > e.disbelieved.sent {
		e.disbelieved.sent, e.disbelieved.epoch = op.Sent, a.Epoch
	}
	return told
}

// News is what an answer showed of Redis.
type News struct {
	Jump  int64 // of Redis' clock, 0 for none
	Epoch EpochNews
	Cause Cause // why the epoch followed another, CauseNone if that is not known
	Open  bool  // the quarantine ended before its planned end
}

// EpochNews says how an epoch relates to the one that was known.
type EpochNews uint8

// The relations.
const (
	EpochSame EpochNews = iota
	EpochFirst
	EpochOther // Redis lost data, or may have
)

// Learn updates Redis' clock and epoch from an answer that is believed.
func (k *Kernel) Learn(op *Op, a *Answer) News {
	before, quarantined := k.epoch.value, k.InQuarantine()
	news := News{Jump: k.watchRedisClock(op, a)}
	if news.Epoch = k.learnEpoch(op, a); news.Epoch != EpochSame {
		news.Cause = follows(before, a)
		news.Open = quarantined && k.epoch.quarantine == 0
	}
	return news
}

func (k *Kernel) learnEpoch(op *Op, a *Answer) EpochNews {
	e := &k.epoch
	if a.Epoch == "" || op.Sent < e.sent {
		return EpochSame
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
		return EpochSame
	}
	news := EpochFirst
	if e.value == "" {
		e.fence = max(e.fence, a.RedisNow) // lower fences are not of an attempt of this core (I8)
	} else {
		news = EpochOther
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

// watchRedisClock compares Redis' clock with the instance's own. Leases expire by Redis' clock: when it jumps forward by
// more than the margin, keys may have expired inside windows that are still open, so nothing is acquired for one TTL (I7). It
// returns the jump, 0 for none.
func (k *Kernel) watchRedisClock(op *Op, a *Answer) (jump int64) {
	if a.RedisNow == 0 {
		return 0
	}
	s := &k.clock
	redis := a.RedisNow * 1000
	lo, hi := redis-int64(k.now.Mono), redis+1000-int64(op.Sent)
	if op.Seq <= s.stepped {
		return 0
	}
	if !s.redis {
		s.redis, s.lo, s.hi, s.at = true, lo, hi, k.now.Mono
		return 0
	}
	drift := int64(k.now.Mono-s.at) / 1_000_000 * k.cfg.MarginPPM
	s.lo, s.hi, s.at = s.lo-drift, s.hi+drift, k.now.Mono
	switch {
	case lo > s.hi+k.margin:
		s.acquires = k.now.Mono + Time(k.cfg.TTL)
		jump = lo - s.hi
		s.lo, s.hi = lo, hi
	case lo > s.hi || hi < s.lo:
		s.lo, s.hi = lo, hi
	default:
		s.lo, s.hi = max(s.lo, lo), min(s.hi, hi)
	}
	return jump
}
