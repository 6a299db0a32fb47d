// Package adapter serves the lease protocol (docs/lease-protocol.md) for an adapter that keeps one lease, because a contender's storm
// has one session.
package adapter

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Patience is how long an adapter waits for a lease in the library's own way, before it is asked again.
const Patience = 2 * time.Second

// Lock is a lease of a library.
type Lock struct {
	Acquire func(ctx context.Context, key string) Answer // waits until ctx ends
	Renew   func() Answer                                // nil: the library renews by itself, and Lost tells of a loss
	Check   func() Answer                                // nil: the adapter is not asked
	Release func() error
}

// Answer is an answer of the lease protocol.
type Answer struct {
	ID    int    `json:"id"`
	OK    bool   `json:"ok"`
	Until int64  `json:"until_unix_ms,omitempty"`
	Fence int64  `json:"fence,omitempty"`
	Retry bool   `json:"retry,omitempty"`
	Error string `json:"error,omitempty"`
	Event string `json:"event,omitempty"`
	Key   string `json:"key,omitempty"`
}

// Result returns the answer without a deadline. Any error means that the lease is lost.
func Result(err error) Answer {
	if err != nil {
		return Answer{Error: err.Error()}
	}
	return Answer{OK: true}
}

// Careful reports whether the library is to be used as carefully as it allows, instead of as its documentation advises.
func Careful() bool { return os.Getenv("CAREFUL") != "" }

// TTL returns the lease's TTL.
func TTL() time.Duration {
	ms, err := strconv.Atoi(os.Getenv("LEASESTORM_TTL_MS"))
	if err != nil {
		panic(err)
	}
	return time.Duration(ms) * time.Millisecond
}

// Redis returns a go-redis client with its default options, or, with care, with time-outs far below the TTL and without repetitions.
// If Redis has sentinels, the client asks them for the master.
func Redis(careful bool) *redis.Client {
	opt, err := redis.ParseURL(os.Getenv("LEASESTORM_REDIS_URL"))
	if err != nil {
		panic(err)
	}
	if careful {
		opt.DialTimeout, opt.ReadTimeout, opt.WriteTimeout, opt.MaxRetries = TTL()/10, TTL()/10, TTL()/10, -1
	}
	if name, addrs := Sentinels(); name != "" {
		return redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: name, SentinelAddrs: addrs,
			DialTimeout: opt.DialTimeout, ReadTimeout: opt.ReadTimeout, WriteTimeout: opt.WriteTimeout, MaxRetries: opt.MaxRetries,
		})
	}
	return redis.NewClient(opt)
}

// Sentinels returns the name of the master and the addresses of the sentinels, "" if there are none.
func Sentinels() (masterName string, addrs []string) {
	return os.Getenv("LEASESTORM_MASTER_NAME"), strings.Split(os.Getenv("LEASESTORM_SENTINELS"), ",")
}

var output sync.Mutex

// Lost reports that the lease is lost.
func Lost(key string) { write(Answer{Event: "lost", Key: key}) }

func write(a Answer) {
	text, _ := json.Marshal(a) // cannot fail
	output.Lock()
	defer output.Unlock()
	fmt.Println(string(text))
}

// Serve answers requests until standard input ends, and all are answered. A check does not wait for a renewal.
func Serve(l Lock) {
	var requests sync.WaitGroup
	defer requests.Wait()
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var q struct {
			ID      int
			Op, Key string
		}
		if json.Unmarshal(in.Bytes(), &q) != nil {
			continue
		}
		requests.Go(func() {
			a := Answer{OK: true}
			switch q.Op {
			case "acquire":
				ctx, cancel := context.WithCancel(context.Background()) // a deadline would shorten leases of rueidislock
				timer := time.AfterFunc(Patience, cancel)
				a = l.Acquire(ctx, q.Key)
				timer.Stop()
			case "renew":
				if l.Renew != nil {
					a = l.Renew()
				}
			case "check":
				a = l.Check()
			case "release":
				a = Result(l.Release())
			}
			a.ID = q.ID
			write(a)
		})
	}
}
