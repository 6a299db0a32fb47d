package respguard

import (
	"bytes"
	"context"
	"maps"
	"runtime"
	"sync"
	"time"
	"weak"

	"github.com/redis/go-redis/v9"
)

// serversMax is how many servers of a cluster are believed in: four times as many as Redis Cluster is made for. go-redis makes a client for
// each that it is told of, compares each with all that came before, and never forgets its address.
const serversMax = 4000

// NewClusterClient is redis.NewClusterClient with guarded connections. opt must have a Dialer. Errors of its commands do not show the
// password.
func NewClusterClient(opt *redis.ClusterOptions) *redis.ClusterClient {
	o := *opt
	all := &servers{}
	o.Dialer = guarding(o.Dialer, all.sent)
	c := redis.NewClusterClient(&o)
	hideInCluster(c, all)
	return c
}

// families has what clients of clusters were told of (*servers), by a weak pointer to the client.
var families sync.Map

// family has c count with those of all.
func family(c *redis.ClusterClient, all *servers) *servers {
	key := weak.Make(c)
	had, known := families.LoadOrStore(key, all)
	if !known {
		runtime.AddCleanup(c, func(key weak.Pointer[redis.ClusterClient]) { families.Delete(key) }, key)
	}
	return had.(*servers)
}

// HideInCluster has c, which was made of another client of the cluster, keep its password out of the errors of its commands, also where
// they are given to one server, whose client has hooks of its own, and refuse servers that name more others than a cluster has. What all
// clients are told that were made of one counts together.
func HideInCluster(c, madeOf *redis.ClusterClient) { hideInCluster(c, family(madeOf, &servers{})) }

func hideInCluster(c *redis.ClusterClient, all *servers) {
	family(c, all) // for what will be made of c
	password := c.Options().Password
	c.AddHook(Hide(password))
	c.OnNewNode(func(server *redis.Client) {
		all.add(time.Now(), server.Options().Addr)
		server.AddHook(Hide(password))
		server.AddHook(limited{all})
	})
}

// servers are those that the servers of a cluster have named within a day, be it in a map of slots or where they send a client. It is safe
// for concurrent use.
type servers struct {
	mu    sync.Mutex
	since time.Time
	named map[string]struct{}
	size  int // of all that are named

	refused time.Time // when a map was, at last
}

// mapPause is for how long no map is asked for after one was refused: go-redis asks every server that it was told of, one after another.
const mapPause = time.Second

// within is for how long a server counts: a cluster whose servers move for years has few addresses in a day.
const within = 24 * time.Hour

// addressMax is the longest address of an honest server: a name of 253 bytes and a port, and some more. What is longer counts for several.
const addressMax = 300

func sizeOf(address string) int { return 1 + len(address)/addressMax }

// begin forgets the day before. The caller has mu.
func (s *servers) begin(now time.Time) {
	if s.named == nil || now.Sub(s.since) >= within {
		s.since, s.named, s.size = now, map[string]struct{}{}, 0
	}
}

// add takes note of a server that go-redis has made a client for.
func (s *servers) add(now time.Time, address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begin(now)
	if _, known := s.named[address]; !known && s.size <= serversMax {
		s.named[address] = struct{}{}
		s.size += sizeOf(address)
	}
}

// full reports whether more were named than are believed in.
func (s *servers) full(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begin(now)
	return s.size > serversMax
}

// sent takes note of where an error sends a client, and refuses the error if that is one place too many: of a pipeline go-redis makes
// clients for all that its errors name before any hook hears of them.
func (s *servers) sent(said []byte) error {
	if !bytes.HasPrefix(said, []byte("MOVED ")) && !bytes.HasPrefix(said, []byte("ASK ")) {
		return nil
	}
	now := time.Now()
	s.add(now, string(said[bytes.LastIndexByte(said, ' ')+1:]))
	if s.full(now) {
		return tooMany()
	}
	return nil
}

// takes reports whether those of a map, or of none, are believed in too, and takes note of them.
func (s *servers) takes(now time.Time, slots []redis.ClusterSlot) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begin(now)
	if now.Sub(s.refused) < mapPause {
		return false
	}
	size := s.size
	fresh := map[string]struct{}{}
	for _, slot := range slots {
		for _, server := range slot.Nodes {
			if _, known := s.named[server.Addr]; known {
				continue
			}
			if _, known := fresh[server.Addr]; known {
				continue
			}
			fresh[server.Addr] = struct{}{}
			if size += sizeOf(server.Addr); size > serversMax {
				s.refused = now
				return false
			}
		}
	}
	maps.Copy(s.named, fresh)
	s.size = size
	return true
}

func tooMany() error {
	return refuse("servers of a cluster that name more than %d others within a day; a restart forgets them", serversMax)
}

// limited refuses a map of too many servers. Who has been sent to too many asks nobody any more until the day has passed: what go-redis
// follows in a pipeline it follows below any hook, and where connections are not guarded nothing else ends that.
type limited struct{ *servers }

// DialHook changes nothing.
func (limited) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook refuses.
func (l limited) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		slots, ok := cmd.(*redis.ClusterSlotsCmd)
		if l.full(time.Now()) || ok && !l.takes(time.Now(), nil) {
			err := tooMany()
			cmd.SetErr(err)
			return err
		}
		err := next(ctx, cmd)
		if ok && err == nil && !l.takes(time.Now(), slots.Val()) {
			err = tooMany()
			slots.SetVal(nil)
			slots.SetErr(err)
		}
		return err
	}
}

// ProcessPipelineHook refuses too; nobody asks for the map among others.
func (l limited) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if !l.full(time.Now()) {
			return next(ctx, cmds)
		}
		err := tooMany()
		for _, cmd := range cmds {
			cmd.SetErr(err)
		}
		return err
	}
}
