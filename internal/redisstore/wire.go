package redisstore

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
)

// Wire is the part of a Store that needs no connection. It turns an op into a script call, and a reply into an answer. The virtual engine
// uses it to run the same scripts. A Wire is immutable and safe for concurrent use.
type Wire struct {
	opt    Options
	tagged bool // LeasePrefix has a hash tag
}

// NewWire returns a wire for a single server. The error wraps ErrInvalidOptions.
func NewWire(options Options) (Wire, error) { return newWire(options, false) }

func newWire(options Options, cluster bool) (Wire, error) {
	opt := options.withDefaults()
	return Wire{opt, hashTag(opt.LeasePrefix) != ""}, opt.validate(cluster)
}

// Options returns the options with every default.
func (w Wire) Options() Options { return w.opt }

// Call is one call of a script. Args are strings, ints, int64s and bools, which are sent as 1 and 0.
type Call struct {
	script *script
	Keys   []string
	Args   []any
}

// Text returns the script's text.
func (c Call) Text() string { return c.script.text }

// AsNew returns c for a caller that knows no epoch and accepts a new Redis if all its signs agree.
func (c Call) AsNew() Call {
	if us, ok := c.Args[1].(int64); ok {
		c.Args[1] = newEpoch(us, optionNew)
	}
	return c
}

// Validate refuses ops whose keys or notices would be ambiguous, or that would block Redis for long.
func (w Wire) Validate(op *core.Op) error {
	if op.Kind < core.OpAcquire || op.Kind > core.OpSupersede || op.Kind == core.OpLook {
		return fmt.Errorf("an op of kind %d cannot be given to Do", op.Kind)
	}
	if len(op.Items) > ItemsMax {
		return fmt.Errorf("an op of %d items; at most %d are allowed", len(op.Items), ItemsMax)
	}
	if op.Kind != core.OpObserve && op.Kind != core.OpNodes {
		if err := CheckInstance(op.Owner); err != nil {
			return err
		}
	}
	if op.Kind.Extends() && (op.TTL < int64(time.Millisecond) || op.TTL%int64(time.Millisecond) != 0) {
		return fmt.Errorf("the TTL is %v; it must be a positive number of whole milliseconds", time.Duration(op.TTL))
	}
	if err := w.validateItems(op); err != nil {
		return err
	}
	if op.Kind == core.OpAsk && (len(op.Items) == 0 || op.Items[0].Peer == "") {
		return errors.New("a request must name an owner and its leases")
	}
	return nil
}

func (w Wire) validateItems(op *core.Op) error {
	if op.Kind == core.OpNodes {
		return nil // any text that another program wrote as an owner: see Answer
	}
	for _, it := range op.Items {
		if err := w.CheckLease(it.ID); err != nil {
			return err
		}
		if it.Peer == "" {
			continue
		}
		if err := CheckInstance(it.Peer); err != nil {
			return err
		}
	}
	return nil
}

// Call returns the script call of op, a valid op except OpLook and OpAsk. The .lua files document KEYS and ARGV.
func (w Wire) Call(op *core.Op) Call {
	fenceLife, prefix := DefaultFenceTTL.Milliseconds(), len(w.opt.LeasePrefix)
	ttl := op.TTL / int64(time.Millisecond)
	args := append(make([]any, 0, 8+2*len(op.Items)), op.Epoch, w.quarantine(op))
	switch op.Kind {
	case core.OpAcquire:
		args = append(args, op.Owner, ttl, op.Fence, fenceLife, w.opt.Channel, prefix)
		for i := range op.Items {
			args = append(args, op.Items[i].Fresh)
		}
		return Call{acquireScript, w.leaseAndFenceKeys(op), args}
	case core.OpRenew:
		return Call{renewScript, w.renewKeys(op), append(args, op.Owner, ttl, fenceLife)}
	case core.OpReassert:
		args = append(args, op.Owner, ttl, fenceLife)
		for i := range op.Items {
			args = append(args, op.Items[i].Fence)
		}
		return Call{reassertScript, w.leaseAndFenceKeys(op), args}
	case core.OpRelease:
		args = append(args, op.Owner, fenceLife, w.opt.Channel, prefix)
		for i := range op.Items {
			heir := op.Items[i].Peer
			if heir == "" {
				heir = nobody
			}
			args = append(args, op.Items[i].Fence, heir)
		}
		return Call{releaseScript, w.leaseAndFenceKeys(op), args}
	case core.OpBeat:
		return Call{beatScript, w.beatKeys(op), append(args, op.Owner, ttl, w.opt.Channel)}
	case core.OpLeave:
		return Call{leaveScript, w.beatKeys(op), append(args, op.Owner, w.opt.Channel)}
	case core.OpNodes:
		return Call{nodesScript, w.plainKeys(w.opt.NodePrefix, op.Items), args}
	case core.OpNews:
		sum := ""
		if op.Done {
			sum = strconv.FormatUint(op.Sum, 36)
		}
		return Call{newsScript, w.plainKeys("", nil), append(args, op.Interval/1000, op.Interval/1000/NewsPatience, sum)}
	case core.OpSupersede:
		return Call{supersedeScript, w.plainKeys("", nil), args}
	default: // core.OpObserve
		return Call{observeScript, w.plainKeys(w.opt.LeasePrefix, op.Items), args}
	}
}

func (w Wire) quarantine(op *core.Op) any {
	if op.Quarantine != 0 {
		return w.opt.epoch(time.Duration(op.Quarantine))
	}
	return w.opt.epoch(w.opt.Quarantine)
}

func (w Wire) beatKeys(op *core.Op) []string {
	return []string{w.opt.EpochKey, w.opt.NodePrefix + op.Owner, w.opt.groupKey()}
}

// guardedKeys returns the keys of a guarded script: the epoch key, the keys that add appends, and the group's key.
func (w Wire) guardedKeys(count int, add func(*keys)) []string {
	k := newKeys(2 + count)
	k.add(w.opt.EpochKey, "")
	add(k)
	k.add(w.opt.groupKey(), "")
	return k.list()
}

func (w Wire) plainKeys(prefix string, items []core.Item) []string {
	return w.guardedKeys(len(items), func(k *keys) { k.items(prefix, items) })
}

func (w Wire) leaseAndFenceKeys(op *core.Op) []string {
	return w.guardedKeys(2*len(op.Items), func(k *keys) {
		for i := range op.Items {
			k.add(w.opt.LeasePrefix, op.Items[i].ID)
			k.fence(w.opt.LeasePrefix, op.Items[i].ID, w.tagged)
		}
	})
}

// renewKeys ends with one fence key of the batch, which Op.Seq selects. Refreshing all would cost a third of the renewal. With 100 leases
// and a renewal interval of 10 s, each fence is refreshed every 1,000 s on average, far more often than it expires.
func (w Wire) renewKeys(op *core.Op) []string {
	return w.guardedKeys(1+len(op.Items), func(k *keys) {
		k.items(w.opt.LeasePrefix, op.Items)
		if len(op.Items) == 0 {
			k.add(w.opt.EpochKey, "-none") // the script needs a key to refresh; this one never exists
		} else {
			k.fence(w.opt.LeasePrefix, op.Items[Refreshed(op)].ID, w.tagged)
		}
	})
}

// Refreshed is the index of the item whose fence key a renewal refreshes. It hashes Op.Seq with the finalizer of splitmix64, because
// Op.Seq advances in steps that may share a factor with the number of items, and would then skip some.
func Refreshed(op *core.Op) int {
	x := op.Seq + 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return int((x ^ x>>31) % uint64(len(op.Items)))
}

func (w Wire) named(op *core.Op, script *script, prefix string, ids []string) Call {
	keys := w.guardedKeys(len(ids), func(k *keys) {
		for _, id := range ids {
			k.add(prefix, id)
		}
	})
	return Call{script, keys, []any{op.Epoch, w.quarantine(op)}}
}

// Answer decodes the reply to op's call.
func (w Wire) Answer(op *core.Op, reply []any) core.Answer {
	a := core.Answer{Seq: op.Seq, Results: make([]core.Result, len(op.Items))}
	rest, err := decodeHead(reply, &a)
	if err != nil {
		return fail(op, core.FailUnknown, err.Error())
	}
	if op.Kind == core.OpSupersede {
		return a
	}
	// Reads are valid in every epoch.
	if a.Epoch != op.Epoch && op.Kind != core.OpObserve && op.Kind != core.OpNodes {
		a.Stale = true
		return a
	}
	if op.Kind == core.OpBeat || op.Kind == core.OpLeave {
		return a
	}
	if op.Kind == core.OpNews {
		if a.News, err = decodeNews(rest); err != nil {
			return fail(op, core.FailUnknown, err.Error())
		}
		return a
	}
	if err := decodeItems(rest, a.Results); err != nil {
		return fail(op, core.FailUnknown, err.Error())
	}
	for i := range op.Items {
		if op.Kind == core.OpNodes && CheckInstance(op.Items[i].ID) != nil {
			a.Results[i] = core.Result{Outcome: core.OutGone} // no instance can have this ID
		}
	}
	return a
}

// Failed decodes Redis' error reply to op's call.
func (w Wire) Failed(op *core.Op, text string) core.Answer {
	if refused(text) {
		return fail(op, core.FailRefused, text)
	}
	return fail(op, core.FailUnknown, text)
}

// AskTexts returns the messages of an OpAsk, usually one. It splits an OpAsk that is too long for subscribers.
func AskTexts(op *core.Op) (texts []string) {
	rest := *op
	size, from := 0, 0
	for i := range op.Items {
		if size += len(op.Items[i].ID) + 1; (size > noticeMax/2 || i-from == wordsMax-3) && i > from {
			rest.Items = op.Items[from:i]
			texts = append(texts, AskText(&rest))
			size, from = len(op.Items[i].ID)+1, i
		}
	}
	rest.Items = op.Items[from:]
	return append(texts, AskText(&rest))
}

// AskText returns the message of an OpAsk.
func AskText(op *core.Op) string {
	words := append(make([]string, 0, 3+len(op.Items)), wordAsked, op.Owner, op.Items[0].Peer)
	for i := range op.Items {
		words = append(words, op.Items[i].ID)
	}
	return strings.Join(words, " ")
}

func fail(op *core.Op, kind core.Failure, text string) core.Answer {
	return core.Answer{Seq: op.Seq, Failure: kind, Text: text, Results: make([]core.Result, len(op.Items))}
}
