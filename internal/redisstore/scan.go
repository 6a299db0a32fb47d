package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	scanCount = 1000 // keys of one SCAN: 0.3 ms
	scanMax   = 1 << 20
	scanBytes = 256 << 20 // of their names: as many keys of 256 bytes
)

// Errors of a reading that was given up.
var (
	ErrTooMany = errors.New("too many keys")
	// ErrSlow: Redis answers, and what is read does not come to its end.
	ErrSlow = errors.New("Redis shows too little at a time")
)

// WholeTimes is how many times the patience with one answer (Options.OpTimeout) a reading of everything may take. A million leases are some
// 3,000 answers.
const WholeTimes = 60

// Whole calls read, and ends its ctx when a reading of everything has taken as long as it may, or ctx has its deadline: who answers a
// little at a time would hold it for ever. The error is ErrSlow then.
func (s *Store) Whole(ctx context.Context, read func(context.Context) error) error {
	began := time.Now()
	whole, cancel := context.WithCancel(ctx) // without a deadline: each answer has that of OpTimeout
	defer cancel()
	defer time.AfterFunc(WholeTimes*s.wire.opt.OpTimeout, cancel).Stop()
	err := read(whole)
	if err == nil || whole.Err() == nil || errors.Is(ctx.Err(), context.Canceled) {
		return err
	}
	return fmt.Errorf("%w: not everything within %v: look what slows it down, or give a longer OpTimeout (leasectl --timeout)", ErrSlow,
		time.Since(began).Round(time.Millisecond))
}

// Names gives take the names of the keys that begin with prefix, without it, a page at a time, never two at once. On a cluster they are
// those of all masters. A name may come twice. One that is longer than NameMax comes as Shown: it is no ID, and who may write one key can
// keep nobody from the others by its name. ErrTooMany: what takes Redis' place may never end it, and anybody who may write can fill it.
func Names(ctx context.Context, client redis.UniversalClient, prefix string, take func(names []string)) error {
	c, cluster := client.(*redis.ClusterClient)
	b := newBudget()
	if !cluster {
		return pages(prefix, b, func(cursor uint64) ([]string, uint64, error) { return namesPage(ctx, client, prefix, cursor) }, take)
	}
	var mu sync.Mutex
	return c.ForEachMaster(ctx, func(ctx context.Context, server *redis.Client) error {
		return pages(prefix, b, func(cursor uint64) ([]string, uint64, error) { return namesPage(ctx, server, prefix, cursor) },
			func(names []string) {
				mu.Lock()
				defer mu.Unlock()
				take(names)
			})
	})
}

// namesPage reads one page of Names, from a server.
func namesPage(ctx context.Context, server redis.Cmdable, prefix string, cursor uint64) (names []string, next uint64, err error) {
	most := len(prefix) + NameMax + 1
	names, next, err = answeredPage(scanScript.Run(ctx, server, nil, cursor, glob(prefix)+"*", scanCount, most), most)
	if Denies(err) { // who only looks may run no script
		names, next, err = server.Scan(ctx, cursor, glob(prefix)+"*", scanCount).Result()
	}
	if err != nil {
		return nil, 0, err
	}
	for i, key := range names {
		name, ok := strings.CutPrefix(key, prefix)
		if !ok { // it may be the password
			return nil, 0, fmt.Errorf("%w: it answered a SCAN of the keys that begin with %q with one that does not", ErrNotRedis, prefix)
		}
		names[i] = Shown(name)
	}
	return names, next, nil
}

// answeredPage is what scan.lua returned, of names of so many bytes at most.
func answeredPage(answer *redis.Cmd, most int) (names []string, next uint64, err error) {
	reply, err := answer.Slice()
	if err != nil {
		return nil, 0, err
	}
	odd := func() ([]string, uint64, error) {
		return nil, 0, fmt.Errorf("%w: it answered a SCAN with something else than a cursor and names", ErrNotRedis)
	}
	if len(reply) != 2 {
		return odd()
	}
	page, list := reply[1].([]any)
	if next, err = parseCursor(reply[0]); err != nil || !list {
		return odd()
	}
	names = make([]string, len(page))
	for i, v := range page {
		if names[i], list = v.(string); !list || len(names[i]) > most {
			return odd()
		}
	}
	return names, next, nil
}

func parseCursor(v any) (uint64, error) {
	text, _ := v.(string)
	return strconv.ParseUint(text, 10, 64)
}

// ScanDenied is what Redis says against a scan of the keys that begin with prefix, in the words of the command: nil, or an error of any
// kind. It reads no name.
func ScanDenied(ctx context.Context, client redis.UniversalClient, prefix string) error {
	return client.Scan(ctx, 0, glob(prefix)+"probe", 1).Err()
}

// budget is what a scan may still read, of all servers together.
type budget struct {
	mu          sync.Mutex
	keys, bytes int
}

func newBudget() *budget { return &budget{keys: scanMax, bytes: scanBytes} }

// spend reports whether there is room for one page more. An empty one counts as a key.
func (b *budget) spend(page []string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.keys -= max(len(page), 1)
	for _, key := range page {
		b.bytes -= len(key)
	}
	return b.keys >= 0 && b.bytes >= 0
}

// pages reads a scan to its end, or to that of its budget: next reads the page at a cursor, and the cursor of the one after it.
func pages(prefix string, b *budget, next func(cursor uint64) ([]string, uint64, error), take func(page []string)) error {
	for cursor := uint64(0); ; {
		page, then, err := next(cursor)
		if err != nil {
			return err
		}
		if !b.spend(page) {
			return tooMany(prefix)
		}
		take(page)
		if cursor = then; cursor == 0 {
			return nil
		}
	}
}

func tooMany(prefix string) error {
	return fmt.Errorf("%w: more than %d keys or %d MiB of them begin with %q, or their scan does not end: delete what is no part of it",
		ErrTooMany, scanMax, scanBytes>>20, prefix)
}

// scan returns the names of the keys with a prefix, without it, each once. Where the prefix carries a hash tag, fences
// are left out: they look like leases.
func (s *Store) scan(ctx context.Context, prefix string) ([]string, error) {
	server, err := s.server(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	known := map[string]bool{}
	err = pages(prefix, newBudget(), func(cursor uint64) ([]string, uint64, error) {
		if err := ctx.Err(); err != nil {
			return nil, 0, err
		}
		ctx, cancel := s.deadline(ctx)
		defer cancel()
		return namesPage(ctx, server, prefix, cursor)
	}, func(page []string) {
		for _, name := range page {
			if !known[name] && name != "" && !(s.wire.tagged && strings.HasSuffix(name, fenceSuffix)) {
				known[name] = true
				names = append(names, name)
			}
		}
	})
	return names, err
}
