package store

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leasestorm/leasestorm/internal/redisstore"
)

// DeadLetter is an entry that could not be processed.
type DeadLetter struct {
	ID      string
	At      time.Time
	Entry   string // ID on the bus
	Why     string
	Tries   int
	Session string
	Fields  map[string]string

	_ struct{}
}

// letterID refuses invalid entry IDs, because Redis reads - and + as the ends
// of the stream.
func letterID(id string) error {
	ms, seq, both := strings.Cut(id, "-")
	_, err := strconv.ParseUint(ms, 10, 64)
	if err == nil && both {
		_, err = strconv.ParseUint(seq, 10, 64)
	}
	if err != nil {
		return fmt.Errorf("%w: %q; an ID has the form 1700000000000-0", ErrLetterID, id)
	}
	return nil
}

// DeadLetters returns up to limit dead letters after the letter cursor ("" for
// the first), oldest first.
func (s *Store) DeadLetters(ctx context.Context, cursor string, limit int) ([]DeadLetter, error) {
	from := "-"
	if cursor != "" {
		if err := letterID(cursor); err != nil {
			return nil, err
		}
		from = "(" + cursor
	}
	reply, err := s.run(ctx, lettersScript, from, limit)
	if err != nil {
		return nil, err
	}
	list, ok := reply.([]any)
	if !ok {
		return nil, unavailable(errReply)
	}
	letters := make([]DeadLetter, 0, len(list))
	for _, item := range list {
		words, err := wordsOf(item, 1)
		if err != nil {
			return nil, unavailable(errReply)
		}
		l := DeadLetter{ID: words[0], Fields: map[string]string{}}
		for field := range slices.Chunk(words[1:], 2) {
			l.Fields[field[0]] = field[len(field)-1]
		}
		l.Entry, l.Why, l.Session = l.Fields["entry"], l.Fields["why"], l.Fields["session"]
		l.Tries, _ = strconv.Atoi(l.Fields["tries"])
		var ms, seq int64
		_, _ = fmt.Sscanf(l.ID, "%d-%d", &ms, &seq)
		l.At = time.UnixMilli(ms)
		letters = append(letters, l)
	}
	return letters, nil
}

// Requeue puts a dead letter back on the bus, so that a worker begins its
// session again. Errors: ErrRequeue, with the reason; ErrLetterID.
func (s *Store) Requeue(ctx context.Context, id string, ttl time.Duration) (session string, err error) {
	if err := letterID(id); err != nil {
		return "", err
	}
	before, after := redisstore.FenceKeys(s.opt.leaseOptions(), s.names.ResourceLease(""))
	reply, err := s.run(ctx, requeueScript, id, ttl.Milliseconds(), before, after)
	if err != nil {
		return "", err
	}
	w, err := wordsOf(reply, 2)
	if err != nil {
		return "", err
	}
	switch w[0] {
	case "K":
		return w[1], nil
	case "0":
		return "", fmt.Errorf("%w: there is no dead letter %q", ErrRequeue, id)
	case "B":
		return "", fmt.Errorf("%w: session %q has the same key and has not ended", ErrRequeue, w[1])
	case "L":
		return "", fmt.Errorf("%w: its session %q has not ended", ErrRequeue, w[1])
	}
	return "", fmt.Errorf("%w: its session %q has no record; send the start again", ErrRequeue, w[1])
}

// Drop deletes a dead letter. It returns false if no dead letter has this ID.
// Errors: ErrLetterID.
func (s *Store) Drop(ctx context.Context, id string) (bool, error) {
	if err := letterID(id); err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.opt.OpTimeout)
	defer cancel()
	n, err := s.client.XDel(ctx, s.opt.KeyPrefix+"dead", id).Result()
	if err != nil {
		return false, unavailable(err)
	}
	return n > 0, nil
}
