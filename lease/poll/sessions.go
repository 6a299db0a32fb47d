package poll

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/leasestorm/leasestorm/internal/callback"
	"github.com/leasestorm/leasestorm/internal/inner"
	"github.com/leasestorm/leasestorm/internal/logentry/zaplog"
	"github.com/leasestorm/leasestorm/internal/plain"
	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/internal/sessionid"
	"github.com/leasestorm/leasestorm/lease"
)

const permittedTimeout = 3 * time.Second

// chunk is how many keys one request reads.
const chunk = 500

// sessions reads the application's sessions. It decodes only values that have changed since the last read.
type sessions struct {
	client redis.UniversalClient
	prefix string
	decode func(id string, value []byte) (paused bool, err error)
	log    *zap.Logger
	calls  *callback.Calls
	self   string           // instance ID, for the log
	leases redisstore.Rules // rights that the sessions' leases need
	check  func(id string) error
	seed   maphash.Seed
	known  map[string]verdict // by key
}

type verdict struct {
	hash    uint64
	string  bool
	polled  bool   // well-formed and not paused
	problem string // why it is malformed, "" if it is not
}

// newSessions returns a source with its own client to the same server. The client honours deadlines, because a read that hangs on a
// dead connection would delay this instance's discoveries.
func newSessions(client redis.UniversalClient, polls *Config, cfg *lease.Config) (*sessions, error) {
	own, err := redisstore.OwnClient(client, redisstore.Options{PoolSize: 1, Hooks: cfg.Hooks, Calls: zaplog.CallsOf(cfg.Logger)})
	if err != nil {
		return nil, err
	}
	leases := redisstore.Options{LeasePrefix: cfg.LeasePrefix, NodePrefix: cfg.NodePrefix, EpochKey: cfg.EpochKey, Channel: cfg.Channel}
	check := func(id string) error { return sessionid.Check(id, polls.NamedSessions) }
	return &sessions{client: own, prefix: polls.SessionPrefix, decode: polls.Decode, log: cfg.Logger, calls: zaplog.CallsOf(cfg.Logger),
		self: cfg.InstanceID, check: check, leases: leases.In(own).Rules(redisstore.Use{Registry: true}),
		seed: maphash.MakeSeed(), known: map[string]verdict{}}, nil
}

// permitted refuses an ACL that denies the sessions, and names all rules that polling needs. Any other failure may pass.
func (s *sessions) permitted(ctx context.Context) error {
	if s == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, permittedTimeout)
	defer cancel()
	all := redisstore.Glob(s.prefix) + "*"
	key := s.prefix + "probe"
	_, denied := s.values(ctx, []string{key})
	err := redisstore.Explain(s.client, s.rules(), redisstore.ScanDenied(ctx, s.client, s.prefix), denied)
	if err != nil {
		return fmt.Errorf("poll: sessions %s: %w", all, err)
	}
	return nil
}

func (s *sessions) rules() redisstore.Rules {
	return redisstore.Rules{Keys: []string{redisstore.Glob(s.prefix) + "*"}}.And(s.leases)
}

// list returns the IDs of all sessions that are not paused, with a *inner.Skipped if some are malformed. It is not safe for
// concurrent use. After ctx is cancelled it sends nothing more; a request in flight honours deadlines only, and ends with the client.
func (s *sessions) list(ctx context.Context) ([]string, error) {
	defer context.AfterFunc(ctx, func() {
		if errors.Is(ctx.Err(), context.Canceled) {
			s.close()
		}
	})()
	ids, err := s.read(ctx)
	return ids, redisstore.Granting(err, redisstore.Line(s.client, s.rules()))
}

func (s *sessions) read(ctx context.Context) ([]string, error) {
	skipped := &inner.Skipped{}
	keys, err := s.keys(ctx)
	if err != nil {
		return nil, fmt.Errorf("SCAN %s*: %w", s.prefix, err)
	}
	ids := make([]string, 0, len(keys))
	known := make(map[string]verdict, len(keys))
	for keys := range slices.Chunk(keys, chunk) {
		found, err := s.values(ctx, keys)
		if err != nil {
			return nil, fmt.Errorf("read sessions: %w", err)
		}
		for i, key := range keys {
			if found[i] == nil { // deleted since
				continue
			}
			_, twice := known[key]
			known[key] = s.judge(key, *found[i])
			switch v := known[key]; {
			case v.polled:
				ids = append(ids, key[len(s.prefix):])
			case v.problem != "" && !twice:
				skipped.Skip(plain.Name(key) + ": " + v.problem)
			}
		}
	}
	s.known = known
	if skipped.Count > 0 {
		return ids, skipped
	}
	return ids, nil
}

// keys returns the keys of all sessions. A key may occur twice.
func (s *sessions) keys(ctx context.Context) (keys []string, err error) {
	err = redisstore.Names(ctx, s.client, s.prefix, func(names []string) {
		for _, name := range names {
			keys = append(keys, s.prefix+name)
		}
	})
	return keys, err
}

// value is the value of a key: a string, or another type.
type value struct {
	text   string
	string bool
}

// values returns the keys' values, nil for a missing key. An unreadable key is an error, because it may hold a session.
func (s *sessions) values(ctx context.Context, keys []string) ([]*value, error) {
	texts, errs := redisstore.Strings(ctx, s.client, keys...)
	found := make([]*value, len(keys))
	for i, err := range errs {
		switch {
		case err == nil:
			found[i] = &value{text: texts[i], string: true}
		case redis.HasErrorPrefix(err, "WRONGTYPE"):
			found[i] = &value{}
		case !errors.Is(err, redis.Nil):
			return nil, fmt.Errorf("%s: %w", plain.Name(keys[i]), err)
		}
	}
	return found, nil
}

// reasonMax bounds the bytes of a foreign key, and of its problem, in the log.
const reasonMax = 300

// judge decides whether to poll the session. It logs a malformed session when judge first finds it malformed.
func (s *sessions) judge(key string, found value) verdict {
	v := verdict{hash: maphash.String(s.seed, found.text), string: found.string}
	if old, seen := s.known[key]; seen && old.hash == v.hash && old.string == v.string {
		return old
	}
	id := key[len(s.prefix):]
	var paused bool
	var err error
	switch {
	case !found.string:
		err = errors.New("its key holds no string")
	case len(found.text) > MaxSession:
		err = fmt.Errorf("its key holds more than the %d bytes that are read of a session", MaxSession)
	default:
		err = s.calls.Call("Config.Decode", 0, func() (err error) {
			paused, err = s.decode(id, []byte(found.text))
			return err
		})
	}
	if err == nil {
		err = s.check(id)
	}
	if err != nil {
		v.problem = plain.Cut(err.Error(), reasonMax)
		s.log.Warn("Session skipped", zap.String("event", "sessionMalformed"), zap.String("instance", s.self),
			zap.String("key", plain.Cut(key, reasonMax)), zap.String("reason", v.problem))
		return v
	}
	v.polled = !paused
	return v
}

func (s *sessions) close() {
	if s != nil {
		_ = s.client.Close()
	}
}
