package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/leasestorm/leasestorm/internal/redisstore"
)

// WorkerInfo is one worker of the registry.
type WorkerInfo struct {
	Instance string
	Info     string
	Age      time.Duration // since its last beat, by Redis' clock
	Left     bool          // it has stopped cleanly

	beat float64
}

// Workers returns all workers of the registry, including dead ones that no sweep has removed.
func (s *Store) Workers(ctx context.Context) ([]WorkerInfo, error) {
	reply, err := s.run(ctx, workersScript)
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
	var all []WorkerInfo
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
		all = append(all, WorkerInfo{Instance: w[0], Info: w[2], Age: age, Left: beat == 0, beat: beat})
	}
	return all, nil
}

// wholeTimes bounds the search for all leases, in multiples of Options.OpTimeout.
const wholeTimes = 60

func (s *Store) leasable(name string) bool {
	return redisstore.CheckLease(s.opt.leaseOptions(), name) == nil
}

// Leases passes the names of all leases on services and slots to take, page by page, until take returns an error. A name may occur twice.
// Leases skips foreign keys that cannot be leases. It returns ErrUnfinished if there may be more.
func (s *Store) Leases(ctx context.Context, take func(names []string) error) error {
	whole, cancel := context.WithTimeout(ctx, wholeTimes*s.opt.OpTimeout) // it reads over all foreign keys
	defer cancel()
	for _, kind := range []string{ServiceLease(""), TunerLease("")} {
		var failed error
		err := redisstore.Names(whole, s.client, s.opt.Leases.LeasePrefix+kind, func(page []string) {
			var names []string
			for _, name := range page {
				if s.leasable(kind + name) {
					names = append(names, kind+name)
				}
			}
			if len(names) == 0 || failed != nil {
				return
			}
			if failed = take(names); failed != nil {
				cancel() // skip the rest
			}
		})
		switch {
		case err != nil && whole.Err() != nil && ctx.Err() == nil:
			err = fmt.Errorf("%w: %w", ErrUnfinished, err)
		case err != nil:
			err = unavailable(err)
		}
		if err := cmp.Or(failed, err); err != nil {
			return err
		}
	}
	return nil
}

// DeleteAllLeases deletes all leases on services and slots, at the start of an installation's only worker. The caller guarantees that the
// workers in others, as returned by Workers, are dead. beats is a worker that has appeared or beaten since then. Each step checks for
// such a worker, and deletes nothing if there is one (I1). DeleteAllLeases returns ErrUnfinished if it may have missed leases.
func (s *Store) DeleteAllLeases(ctx context.Context, worker string, others []WorkerInfo) (deleted int, beats string, err error) {
	err = s.Leases(ctx, func(names []string) error {
		n, other, err := s.deleteLeases(ctx, worker, others, names)
		if deleted, beats = deleted+n, other; err == nil && beats != "" {
			return errBeats
		}
		return err
	})
	if beats == "" && (err == nil || errors.Is(err, ErrUnfinished)) { // also if there was no lease
		_, other, failed := s.deleteLeases(ctx, worker, others, nil)
		beats, err = other, cmp.Or(failed, err)
	}
	if errors.Is(err, errBeats) {
		err = nil
	}
	return deleted, beats, err
}

var errBeats = errors.New("another worker beats")

func (s *Store) deleteLeases(ctx context.Context, worker string, others []WorkerInfo, names []string) (
	deleted int, beats string, err error,
) {
	args := []any{worker, len(others)}
	for _, other := range others {
		args = append(args, other.Instance, other.beat)
	}
	for _, name := range names {
		args = append(args, s.opt.Leases.LeasePrefix+name)
	}
	reply, err := s.run(ctx, deleteScript, args...)
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
