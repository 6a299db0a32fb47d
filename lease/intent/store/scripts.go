package store

import (
	"context"
	"embed"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/redisstore"
)

//go:embed lua/*.lua
var lua embed.FS

func scriptOf(name string) *redis.Script { return redis.NewScript(redisstore.Lua(lua, "common", name)) }

var (
	putScript       = scriptOf("put")
	putLeasedScript = redis.NewScript(redisstore.Lua(lua, "common", "busy") + redisstore.EpochText() + redisstore.Lua(lua, "lease", "put"))
	readScript      = scriptOf("read")
	listScript      = scriptOf("list")
	stopScript      = scriptOf("stop")
	writeScript     = scriptOf("write")
	beatScript      = scriptOf("beat")
	leaveScript     = scriptOf("leave")
	workersScript   = scriptOf("workers")
	deleteScript    = scriptOf("delete")
	sweepScript     = scriptOf("sweep")
	begunScript     = scriptOf("begun")
	disownScript    = scriptOf("disown")
	buryScript      = scriptOf("bury")
	lettersScript   = scriptOf("letters")
	requeueScript   = scriptOf("requeue")
)

// run calls a script, which builds its own keys from the prefix. KEYS[1] gives
// their slot in a cluster.
func (s *Store) run(ctx context.Context, script *redis.Script, args ...any) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opt.OpTimeout)
	defer cancel()
	all := append(make([]any, 0, 4+len(args)), "", "", s.opt.KeyPrefix, s.opt.Retention.Milliseconds())
	reply, err := s.batcher.call(ctx, script, []string{s.bus}, append(all, args...)...)
	if err != nil {
		return nil, unavailable(s.named(ctx, err))
	}
	return reply, nil
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
