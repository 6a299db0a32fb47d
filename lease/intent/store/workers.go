package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/leasestorm/leasestorm/internal/intentbus"
	"github.com/leasestorm/leasestorm/internal/redisstore"
)

func (b *bus) Workers(ctx context.Context) ([]intentbus.Worker, error) {
	reply, err := b.run(ctx, workersScript)
	if err != nil {
		return nil, err
	}
	list, ok := reply.([]any)
	if !ok || len(list) == 0 {
		return nil, unavailable(errReply)
	}
	now, err := strconv.ParseInt(fmt.Sprint(list[0]), 10, 64)
	if err != nil {
		return nil, unavailable(errReply)
	}
	var all []intentbus.Worker
	for _, item := range list[1:] {
		w, err := wordsOf(item, 3)
		if err != nil {
			return nil, err
		}
		beat, err := strconv.ParseFloat(w[1], 64)
		if err != nil {
			return nil, unavailable(errReply)
		}
		age := time.UnixMilli(now).Sub(time.UnixMilli(int64(beat)))
		all = append(all, intentbus.Worker{Instance: w[0], Info: w[2], Age: age, Left: beat == 0, Beat: beat})
	}
	return all, nil
}

// wholeTimes bounds the search for all leases, in multiples of
// Options.OpTimeout.
const wholeTimes = 60

func (b *bus) Leases(ctx context.Context, take func(names []string) error) error {
	whole, cancel := context.WithTimeout(ctx, wholeTimes*b.opt.OpTimeout) // it reads over all foreign keys
	defer cancel()
	for _, kind := range []string{b.names.ResourceLease(""), b.names.SlotLease("")} {
		var failed error
		err := redisstore.Names(whole, b.client, b.opt.Leases.LeasePrefix+kind, func(page []string) {
			names := b.ownLeases(kind, page)
			if len(names) == 0 || failed != nil {
				return
			}
			if failed = take(names); failed != nil {
				cancel() // skip the rest
			}
		})
		switch {
		case err != nil && whole.Err() != nil && ctx.Err() == nil:
			err = fmt.Errorf("%w: %w", intentbus.ErrUnfinished, err)
		case err != nil:
			err = unavailable(err)
		}
		if err := cmp.Or(failed, err); err != nil {
			return err
		}
	}
	return nil
}

// ownLeases returns those names of page that belong to leases of the given
// kind.
func (b *bus) ownLeases(kind string, page []string) (names []string) {
	for _, name := range page {
		if redisstore.CheckLease(b.opt.leaseOptions(), kind+name) == nil {
			names = append(names, kind+name)
		}
	}
	return names
}

func (b *bus) DeleteAllLeases(ctx context.Context, others []intentbus.Worker) (deleted int, beats string, err error) {
	err = b.Leases(ctx, func(names []string) error {
		n, other, err := b.deleteLeases(ctx, others, names)
		if deleted, beats = deleted+n, other; err == nil && beats != "" {
			return errBeats
		}
		return err
	})
	if beats == "" && (err == nil || errors.Is(err, intentbus.ErrUnfinished)) { // also if there was no lease
		_, other, failed := b.deleteLeases(ctx, others, nil)
		beats, err = other, cmp.Or(failed, err)
	}
	if errors.Is(err, errBeats) {
		err = nil
	}
	return deleted, beats, err
}

var errBeats = errors.New("another worker is alive")

func (b *bus) deleteLeases(ctx context.Context, others []intentbus.Worker, names []string) (
	deleted int, beats string, err error,
) {
	args := []any{b.worker, len(others)}
	for _, other := range others {
		args = append(args, other.Instance, other.Beat)
	}
	for _, name := range names {
		args = append(args, b.opt.Leases.LeasePrefix+name)
	}
	reply, err := b.run(ctx, deleteScript, args...)
	if err != nil {
		return 0, "", err
	}
	switch r := reply.(type) {
	case int64:
		return int(r), "", nil
	case string:
		return 0, r, nil
	}
	return 0, "", unavailable(errReply)
}
