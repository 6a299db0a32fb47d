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

// Put accepts a request: it writes record, key and bus entry in one step. If a
// session that has not ended has the request's key, Put changes nothing and
// returns that session's ID. id is the ID of the new session, a UUID. UUIDs of
// version 7 order lists by time. ttl is the life of the key until a worker
// starts the session. From then on, the key lives until the session ends.
//
//	accepted           id, false, nil
//	it is known        the session's ID, true, nil
//	no answer          ErrUnavailable: retry with the same id; it is accepted once
//	malformed          intent.ErrInvalid
func (s *Store) Put(ctx context.Context, id string, r intent.Request, ttl time.Duration) (session string, known bool, err error) {
	args, err := s.putArgs(id, r, ttl)
	if err != nil {
		return "", false, err
	}
	reply, err := s.run(ctx, putScript, args...)
	if err != nil {
		return "", false, err
	}
	return putReply(reply)
}

// putArgs returns intent.ErrInvalid if the request is malformed, or if its
// resource has a name that no lease can have.
func (s *Store) putArgs(id string, r intent.Request, ttl time.Duration) ([]any, error) {
	r, err := r.Canonical(s.opt.Names)
	if err != nil {
		return nil, err
	}
	if err := redisstore.CheckLease(s.opt.leaseOptions(), s.names.ResourceLease(r.Resource)); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", intent.ErrInvalid, s.names.ResourceMember, err)
	}
	return []any{id, r.Resource, r.Profile, r.At, r.Key(s.opt.Names), ttl.Milliseconds()}, nil
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

// PutLeased is like Put, but also acquires the resource's lease for the
// session. If the resource is in use, even by a session of the same key,
// PutLeased changes nothing and returns *BusyError (ErrBusy). If Redis grants
// no leases, it returns ErrQuarantine.
func (s *Store) PutLeased(ctx context.Context, id string, r intent.Request, ttl time.Duration) (session string, known bool, err error) {
	put, err := s.putArgs(id, r, ttl)
	if err != nil {
		return "", false, err
	}
	lo := s.opt.leaseOptions()
	resource := put[1].(string)
	keys, err := redisstore.LeaseKeys(lo, s.names.ResourceLease(resource))
	if err != nil {
		return "", false, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.opt.OpTimeout)
	defer cancel()
	args := append([]any{"", redisstore.NewEpoch(lo), s.opt.KeyPrefix, s.opt.Retention.Milliseconds()},
		put...)
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
		return "", false, &BusyError{Resource: resource, Holder: words[1]}
	case words[0] == "Q":
		ms, err := strconv.ParseInt(words[1], 10, 64)
		if err != nil {
			return "", false, unavailable(errReply)
		}
		return "", false, fmt.Errorf("%w: %d ms", ErrQuarantine, ms)
	}
	return putReply(reply)
}

// Stop requests the end of a session. ended reports that it had already ended.
// Errors: ErrNotFound, ErrUnavailable.
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

func (b *bus) StopAsked(ctx context.Context, id string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, b.opt.OpTimeout)
	defer cancel()
	stop, err := b.client.HGet(ctx, b.session(id), "stop").Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return false, unavailable(err)
	}
	return stop != "", nil
}

var recordFields = []string{"id", "service", "profile", "start", "key", "state", "reason", "detail", "stop", "owner", "slot", "fence",
	"tunerFence", "created", "updated"}

// read returns the records of sessions, nil for a missing one. foreign has the
// fault of each record whose key holds another type.
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
			record := s.decode(words)
			records[i] = &record
		}
	}
	return records, foreign, nil
}

// Get returns a session's record. Errors: ErrNotFound, also if the session's
// key holds another type; ErrUnavailable.
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

// List returns up to limit sessions after the session cursor ("" for the
// newest), newest first, and the cursor of the next page, "" after the last. A
// new session never moves others between pages. If List omits records whose
// keys hold another type, err has a method Skipped() (count int, names
// []string), and sessions are valid. Any other error is ErrUnavailable.
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

// readMax is how many records of a list one call reads. It bounds how long
// Redis delays a renewal.
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

// decode decodes the values of recordFields.
func (s *Store) decode(values []string) intent.Session {
	f := make(map[string]string, len(values))
	for k, name := range recordFields {
		f[name] = values[k]
	}
	number := func(name string) int64 {
		n, _ := strconv.ParseInt(f[name], 10, 64) // a missing or malformed number is 0
		return n
	}
	return intent.Session{
		ID:      f["id"],
		Request: intent.Request{Resource: f["service"], Profile: f["profile"], At: number("start")},
		Key:     f["key"], State: intent.State(f["state"]), Reason: intent.Reason(s.names.NeutralReason(f["reason"])), Detail: f["detail"],
		StopAsked: f["stop"] != "", Worker: f["owner"], Slot: f["slot"],
		Fence: number("fence"), SlotFence: number("tunerFence"),
		CreatedAt: time.UnixMilli(number("created")), UpdatedAt: time.UnixMilli(number("updated")),
	}
}
