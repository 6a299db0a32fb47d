package poll

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"strings"
	"sync"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
)

// chunk is how many keys one SCAN or MGET is about.
const chunk = 500

// sessions reads the application's sessions. Values that did not change since the last reading are not decoded again.
type sessions struct {
	client redis.UniversalClient
	prefix string
	log    *zap.Logger
	seed   maphash.Seed
	known  map[string]verdict // by key
}

// globEscape makes a prefix stand for itself in a pattern.
var globEscape = strings.NewReplacer("*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`, `\`, `\\`)

// verdict is what a session's value was found to be.
type verdict struct {
	hash   uint64
	polled bool // well-formed and not paused
}

func newSessions(client redis.UniversalClient, prefix string, log *zap.Logger) *sessions {
	return &sessions{client: derive(client), prefix: prefix, log: log, seed: maphash.MakeSeed(), known: map[string]verdict{}}
}

// derive returns a client of its own to the same server, which honours deadlines: a session source that hangs on a dead
// connection would hold up what this instance learns of the others.
func derive(client redis.UniversalClient) redis.UniversalClient {
	switch c := client.(type) {
	case *redis.Client:
		o := *c.Options()
		o.ContextTimeoutEnabled, o.MaxRetries, o.PoolSize, o.MinIdleConns = true, -1, 1, 0
		return redis.NewClient(&o)
	case *redis.ClusterClient:
		o := *c.Options()
		o.ContextTimeoutEnabled, o.MaxRetries, o.PoolSize, o.MinIdleConns = true, -1, 1, 0
		return redis.NewClusterClient(&o)
	}
	return client
}

// list returns the IDs of all sessions that are not paused. Not safe for concurrent use.
func (s *sessions) list(ctx context.Context) ([]string, error) {
	keys, err := s.keys(ctx)
	if err != nil {
		return nil, fmt.Errorf("SCAN %s*: %w", s.prefix, err)
	}
	ids := make([]string, 0, len(keys))
	known := make(map[string]verdict, len(keys))
	for len(keys) > 0 {
		n := min(len(keys), chunk)
		values, err := s.values(ctx, keys[:n])
		if err != nil {
			return nil, fmt.Errorf("read sessions: %w", err)
		}
		for i, key := range keys[:n] {
			if values[i] == nil { // gone meanwhile, or somebody else's
				kind, err := s.client.Type(ctx, key).Result()
				if err != nil {
					return nil, fmt.Errorf("read sessions: %w", err)
				}
				if kind == "none" || kind == "string" {
					continue
				}
			}
			v := s.judge(key, values[i])
			known[key] = v
			if v.polled {
				ids = append(ids, key[len(s.prefix):])
			}
		}
		keys = keys[n:]
	}
	s.known = known
	return ids, nil
}

// keys returns the keys of all sessions; one may come twice.
func (s *sessions) keys(ctx context.Context) ([]string, error) {
	var mu sync.Mutex
	var keys []string
	scan := func(ctx context.Context, c *redis.Client) error {
		it := c.Scan(ctx, 0, globEscape.Replace(s.prefix)+"*", chunk).Iterator()
		for it.Next(ctx) {
			mu.Lock()
			keys = append(keys, it.Val())
			mu.Unlock()
		}
		return it.Err()
	}
	var err error
	switch c := s.client.(type) {
	case *redis.ClusterClient:
		err = c.ForEachMaster(ctx, scan)
	case *redis.Client:
		err = scan(ctx, c)
	default:
		err = fmt.Errorf("unsupported Redis client %T", s.client)
	}
	return keys, err
}

// values returns what the keys hold; nil where that is no string or gone.
func (s *sessions) values(ctx context.Context, keys []string) ([]any, error) {
	if _, cluster := s.client.(*redis.ClusterClient); !cluster {
		return s.client.MGet(ctx, keys...).Result()
	}
	pipe := s.client.Pipeline() // keys of many slots cannot be read by one MGET
	for _, key := range keys {
		pipe.Get(ctx, key)
	}
	cmds, _ := pipe.Exec(ctx)
	values := make([]any, len(keys))
	for i, cmd := range cmds {
		value, err := cmd.(*redis.StringCmd).Result()
		switch {
		case err == nil:
			values[i] = value
		case ctx.Err() != nil:
			return nil, ctx.Err()
		}
	}
	return values, nil
}

// judge decides whether the session is to be polled. What is malformed is reported when it is first seen so.
func (s *sessions) judge(key string, value any) verdict {
	text, ok := value.(string)
	v := verdict{hash: maphash.String(s.seed, text)}
	if old, seen := s.known[key]; seen && old.hash == v.hash {
		return old
	}
	var session struct {
		ID       string `json:"id"`
		IsPaused bool   `json:"isPaused"`
	}
	id := key[len(s.prefix):]
	problem := ""
	if !ok {
		problem = "its key holds no string"
	} else if err := json.Unmarshal([]byte(text), &session); err != nil {
		problem = "not the JSON of a session: " + err.Error()
	} else if session.ID != id {
		problem = fmt.Sprintf("its id is %q, not that of its key", session.ID)
	} else if len(id) != 36 || uuid.Validate(id) != nil {
		problem = "its ID is not a UUID"
	}
	if problem != "" {
		s.log.Warn("Session skipped", zap.String("event", "sessionMalformed"), zap.String("key", key),
			zap.String("reason", problem))
		return v
	}
	v.polled = !session.IsPaused
	return v
}

func (s *sessions) close() { _ = s.client.Close() }
