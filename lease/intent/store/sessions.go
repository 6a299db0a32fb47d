package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/inner"
	"github.com/leasestorm/leasestorm/internal/plain"
	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/internal/sessionid"
	"github.com/leasestorm/leasestorm/lease/intent"
)

// PutSessionWithIdempotency accepts a start: it writes record, key and bus entry in one step. If a session that has not ended has the
// key, it changes nothing and returns that session's ID. It reads only ID and Start of session. key is Start.Key(). ttl is the life of
// the key until a worker starts the session. From then on, the key lives until the session ends.
//
//	accepted         session.ID, false, nil
//	it is known      its ID, true, nil
//	no answer        ErrUnavailable: retry with the same session; it is accepted once
//	no such service  intent.ErrInvalid: if the prefix of leases has a hash tag, no lease can have this name
func (s *Store) PutSessionWithIdempotency(ctx context.Context, session intent.Session, key string, ttl time.Duration) (
	existingID string, exists bool, err error) {
	if err := s.servable(session.ServiceRef); err != nil {
		return "", false, err
	}
	reply, err := s.run(ctx, putScript, putArgs(&session, key, ttl)...)
	if err != nil {
		return "", false, err
	}
	return putReply(reply)
}

func putArgs(session *intent.Session, key string, ttl time.Duration) []any {
	return []any{session.ID, session.ServiceRef, session.Profile, session.StartMs, key, ttl.Milliseconds()}
}

func putReply(reply any) (id string, exists bool, err error) {
	words, err := wordsOf(reply, 2)
	switch {
	case err != nil:
		return "", false, err
	case !sessionid.Valid(words[1]):
		return "", false, unavailable(errReply)
	}
	return words[1], words[0] == "E", nil
}

// servable returns intent.ErrInvalid if no lease can have the name of such a service.
func (s *Store) servable(ref string) error {
	if err := redisstore.CheckLease(s.opt.leaseOptions(), ServiceLease(ref)); err != nil {
		return fmt.Errorf("%w: serviceRef: %w", intent.ErrInvalid, err)
	}
	return nil
}

// PutSessionWithLease is PutSessionWithIdempotency of phase 1, which also acquires the service's lease for the session. If the service is
// in use, even by a session of the same key, it changes nothing and returns *BusyError (ErrBusy). If Redis grants no leases, it returns
// ErrQuarantine.
func (s *Store) PutSessionWithLease(ctx context.Context, session intent.Session, key string, ttl time.Duration) (
	existingID string, exists bool, err error) {
	if err := s.servable(session.ServiceRef); err != nil {
		return "", false, err
	}
	lo := s.opt.leaseOptions()
	keys, err := redisstore.LeaseKeys(lo, ServiceLease(session.ServiceRef))
	if err != nil {
		return "", false, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.opt.OpTimeout)
	defer cancel()
	args := append([]any{"", redisstore.NewEpoch(lo), s.opt.KeyPrefix, s.opt.Retention.Milliseconds()},
		putArgs(&session, key, ttl)...)
	args = append(args, s.opt.Leases.TTL.Milliseconds(), redisstore.DefaultFenceTTL.Milliseconds())
	reply, err := s.batcher.call(ctx, putLeasedScript, keys, args...)
	if err != nil {
		return "", false, unavailable(s.named(ctx, err))
	}
	words, err := wordsOf(reply, 2)
	switch {
	case err != nil:
		return "", false, err
	case words[0] == "B":
		return "", false, &BusyError{Service: session.ServiceRef, Holder: words[1]}
	case words[0] == "Q":
		ms, err := strconv.ParseInt(words[1], 10, 64)
		if err != nil {
			return "", false, unavailable(errReply)
		}
		return "", false, fmt.Errorf("%w: %d ms", ErrQuarantine, ms)
	}
	return putReply(reply)
}

// Stop requests the end of a session. ended reports that it had already ended. Errors: ErrNotFound, ErrUnavailable.
func (s *Store) Stop(ctx context.Context, id string) (ended bool, err error) {
	reply, err := s.run(ctx, stopScript, id, s.notify)
	switch {
	case err != nil:
		return false, err
	case reply == "M":
		return false, fmt.Errorf("%w: %q", ErrNotFound, id)
	}
	return reply == "E", nil
}

// StopAsked reports whether a session's record has a pending stop. Errors: ErrUnavailable.
func (s *Store) StopAsked(ctx context.Context, id string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opt.OpTimeout)
	defer cancel()
	stop, err := s.client.HGet(ctx, s.session(id), "stop").Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return false, unavailable(err)
	}
	return stop != "", nil
}

var recordFields = []string{"id", "service", "profile", "start", "key", "state", "reason", "detail", "stop", "owner", "slot", "fence",
	"tunerFence", "created", "updated"}

// read returns the records of sessions, nil for a missing one. foreign has the fault of each record whose key holds another type.
func (s *Store) read(ctx context.Context, ids ...string) (records []*intent.Session, foreign []string, err error) {
	args := []any{len(recordFields)}
	for _, word := range slices.Concat(recordFields, ids) {
		args = append(args, word)
	}
	reply, err := s.run(ctx, readScript, args...)
	if err != nil {
		return nil, nil, err
	}
	list, ok := reply.([]any)
	if !ok || len(list) != len(ids) {
		return nil, nil, unavailable(errReply)
	}
	records, foreign = make([]*intent.Session, len(ids)), make([]string, len(ids))
	for i, one := range list {
		if why, ok := one.(string); ok {
			foreign[i] = plain.Name(why)
			continue
		}
		words, err := wordsOf(one, 0)
		if err != nil || len(words) != 0 && len(words) != len(recordFields) {
			return nil, nil, unavailable(errReply)
		}
		if len(words) > 0 {
			fields := make(map[string]string, len(words))
			for k, name := range recordFields {
				fields[name] = words[k]
			}
			record := decode(fields)
			records[i] = &record
		}
	}
	return records, foreign, nil
}

// Get returns a session's record. Errors: ErrNotFound, also if its key holds another type; ErrUnavailable.
func (s *Store) Get(ctx context.Context, id string) (intent.Session, error) {
	records, _, err := s.read(ctx, id)
	switch {
	case err != nil:
		return intent.Session{}, err
	case records[0] == nil:
		return intent.Session{}, fmt.Errorf("%w: %q", ErrNotFound, id)
	}
	return *records[0], nil
}

// List returns up to limit sessions after the session cursor ("" for the newest), newest first, and the cursor of the next page, "" after
// the last. A new session never moves others between pages. err has a method Skipped() (count int, names []string), beside valid
// sessions, if List omits records whose keys hold another type. Any other error is ErrUnavailable.
func (s *Store) List(ctx context.Context, cursor string, limit int) (sessions []intent.Session, next string, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.opt.OpTimeout)
	defer cancel()
	ids, err := s.ids(ctx, cursor, limit+1)
	if err != nil {
		return nil, "", err
	}
	if len(ids) > limit {
		ids = ids[:limit]
		next = ids[limit-1]
	}
	if len(ids) == 0 {
		return nil, "", nil
	}
	skipped := &inner.Skipped{}
	for some := range slices.Chunk(ids, readMax) {
		records, foreign, err := s.read(ctx, some...)
		if err != nil {
			return nil, "", err
		}
		for i, r := range records {
			switch {
			case foreign[i] != "":
				skipped.Skip(plain.Name(s.session(some[i])) + ": " + foreign[i])
			case r != nil:
				sessions = append(sessions, *r)
			}
		}
	}
	if skipped.Count > 0 {
		return sessions, next, skipped
	}
	return sessions, next, nil
}

// readMax is how many records of a list one call reads. It bounds how long a renewal waits.
const readMax = 25

func (s *Store) ids(ctx context.Context, cursor string, n int) (ids []string, err error) {
	from := "+"
	if cursor != "" {
		from = "(" + cursor
	}
	reply, err := s.run(ctx, listScript, from, n)
	if err != nil {
		return nil, err
	}
	return wordsOf(reply, 0)
}

func (s *Store) session(id string) string { return s.opt.KeyPrefix + "session:" + id }

func decode(f map[string]string) intent.Session {
	number := func(name string) int64 {
		n, _ := strconv.ParseInt(f[name], 10, 64) // a missing or malformed number is 0
		return n
	}
	return intent.Session{
		ID:    f["id"],
		Start: intent.Start{ServiceRef: f["service"], Profile: f["profile"], StartMs: number("start")},
		Key:   f["key"], State: intent.State(f["state"]), Reason: intent.Reason(f["reason"]), Detail: f["detail"],
		StopAsked: f["stop"] != "", Worker: f["owner"], Slot: f["slot"],
		Fence: number("fence"), TunerFence: number("tunerFence"),
		CreatedAt: time.UnixMilli(number("created")), UpdatedAt: time.UnixMilli(number("updated")),
	}
}

var errReply = errors.New("a reply of an unknown form")

func wordsOf(reply any, n int) ([]string, error) {
	list, ok := reply.([]any)
	if !ok || len(list) < n {
		return nil, unavailable(errReply)
	}
	words := make([]string, len(list))
	for i, v := range list {
		if text, ok := v.(string); ok {
			words[i] = text
			continue
		}
		words[i] = fmt.Sprint(v)
	}
	return words, nil
}
