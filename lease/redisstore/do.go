package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/core"
)

// Do executes op, at most once, and returns what became of it. It never blocks longer than ctx, or than OpTimeout where
// ctx has no deadline. Every op but OpLook (see Look) is possible. Do neither keeps nor changes op.
//
// An attempt that Redis did not answer, for whatever reason, fails with FailUnknown; it may have been executed, and may
// still be. FailRefused is said only of what certainly was not executed. Answer.Results always has one element per item.
func (s *Store) Do(ctx context.Context, op *core.Op) core.Answer {
	if err := s.check(op); err != nil {
		return fail(op, core.FailRefused, err.Error())
	}
	if op.Kind == core.OpAsk {
		return s.ask(ctx, op)
	}
	script, keys, args := s.request(op)
	reply, err := s.run(ctx, script, keys, args...)
	if err != nil {
		return s.fail(ctx, op, err)
	}
	a := core.Answer{Seq: op.Seq, Results: make([]core.Result, len(op.Items))}
	rest, err := decodeHead(reply, &a)
	if err != nil {
		return fail(op, core.FailUnknown, err.Error())
	}
	// What only reads is never void, and answers in every epoch.
	if a.Epoch != op.Epoch && op.Kind != core.OpObserve && op.Kind != core.OpNodes {
		a.Stale = true
		return a
	}
	if op.Kind == core.OpBeat || op.Kind == core.OpLeave {
		return a
	}
	if err := decodeItems(rest, a.Results); err != nil {
		return fail(op, core.FailUnknown, err.Error())
	}
	return a
}

// check refuses what would make keys or notices that mean something else, or block Redis for long.
func (s *Store) check(op *core.Op) error {
	if op.Kind < core.OpAcquire || op.Kind > core.OpAsk || op.Kind == core.OpLook {
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
	for i := range op.Items {
		id, peer := op.Items[i].ID, op.Items[i].Peer
		err := s.CheckLease(id)
		if op.Kind == core.OpNodes {
			err = CheckInstance(id)
		}
		if err == nil && peer != "" {
			err = CheckInstance(peer)
		}
		if err != nil {
			return err
		}
	}
	if op.Kind == core.OpAsk && (len(op.Items) == 0 || op.Items[0].Peer == "") {
		return errors.New("an ask must name the owner asked and its leases")
	}
	return nil
}

// request builds the call of a script. The .lua files name KEYS and ARGV.
func (s *Store) request(op *core.Op) (script *redis.Script, keys []string, args []any) {
	fenceLife, prefix := s.opt.FenceTTL.Milliseconds(), len(s.opt.LeasePrefix)
	ttl := op.TTL / int64(time.Millisecond)
	args = append(make([]any, 0, 8+2*len(op.Items)), op.Epoch, s.opt.Quarantine.Microseconds())
	switch op.Kind {
	case core.OpAcquire:
		args = append(args, op.Owner, ttl, op.Fence, fenceLife, s.opt.Channel, prefix)
		return acquireScript, s.leaseAndFenceKeys(op), args
	case core.OpRenew:
		return renewScript, s.renewKeys(op), append(args, op.Owner, ttl, fenceLife)
	case core.OpReassert:
		args = append(args, op.Owner, ttl, fenceLife)
		for i := range op.Items {
			args = append(args, op.Items[i].Fence)
		}
		return reassertScript, s.leaseAndFenceKeys(op), args
	case core.OpRelease:
		args = append(args, op.Owner, fenceLife, s.opt.Channel, prefix)
		for i := range op.Items {
			heir := op.Items[i].Peer
			if heir == "" {
				heir = nobody
			}
			args = append(args, op.Items[i].Fence, heir)
		}
		return releaseScript, s.leaseAndFenceKeys(op), args
	case core.OpBeat:
		return beatScript, []string{s.opt.EpochKey, s.opt.NodePrefix + op.Owner},
			append(args, op.Owner, ttl, s.opt.Channel)
	case core.OpLeave:
		return leaveScript, []string{s.opt.EpochKey, s.opt.NodePrefix + op.Owner}, append(args, op.Owner, s.opt.Channel)
	case core.OpNodes:
		return nodesScript, s.plainKeys(s.opt.NodePrefix, op.Items), args
	default: // core.OpObserve
		return observeScript, s.plainKeys(s.opt.LeasePrefix, op.Items), args
	}
}

// keyBytes is what a key of an ID of about 40 bytes takes, fence included.
const keyBytes = 64

func (s *Store) plainKeys(prefix string, items []core.Item) []string {
	k := newKeys(1+len(items), (1+len(items))*keyBytes)
	k.add(s.opt.EpochKey, "")
	for i := range items {
		k.add(prefix, items[i].ID)
	}
	return k.list()
}

func (s *Store) leaseAndFenceKeys(op *core.Op) []string {
	k := newKeys(1+2*len(op.Items), (1+2*len(op.Items))*keyBytes)
	k.add(s.opt.EpochKey, "")
	for i := range op.Items {
		k.add(s.opt.LeasePrefix, op.Items[i].ID)
		k.fence(s.opt.LeasePrefix, op.Items[i].ID, s.tagged)
	}
	return k.list()
}

// renewKeys ends with one fence key drawn from the batch. Refreshing them all would cost a third of the renewal; drawn
// at random, each of 100 is refreshed every 1,000 s at a renewal interval of 10 s, far more often than it expires.
func (s *Store) renewKeys(op *core.Op) []string {
	k := newKeys(2+len(op.Items), (2+len(op.Items))*keyBytes)
	k.add(s.opt.EpochKey, "")
	for i := range op.Items {
		k.add(s.opt.LeasePrefix, op.Items[i].ID)
	}
	if len(op.Items) == 0 {
		k.add(s.opt.EpochKey, "-none") // no such key: the script wants one to refresh
	} else {
		k.fence(s.opt.LeasePrefix, op.Items[rand.IntN(len(op.Items))].ID, s.tagged)
	}
	return k.list()
}

func (s *Store) ask(ctx context.Context, op *core.Op) core.Answer {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	words := append(make([]string, 0, 3+len(op.Items)), wordAsked, op.Owner, op.Items[0].Peer)
	for i := range op.Items {
		words = append(words, op.Items[i].ID)
	}
	if err := s.client.Publish(ctx, s.opt.Channel, strings.Join(words, " ")).Err(); err != nil {
		return s.fail(ctx, op, err)
	}
	return core.Answer{Seq: op.Seq, Results: make([]core.Result, len(op.Items))}
}

func (s *Store) fail(ctx context.Context, op *core.Op, err error) core.Answer {
	kind, text := failure(err)
	if c, ok := s.client.(*redis.ClusterClient); ok && kind == core.FailRefused {
		c.ReloadState(ctx) // the slot may have moved
	}
	return fail(op, kind, text)
}

func fail(op *core.Op, kind core.Failure, text string) core.Answer {
	return core.Answer{Seq: op.Seq, Failure: kind, Text: text, Results: make([]core.Result, len(op.Items))}
}
