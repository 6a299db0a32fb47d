package redisstore

import (
	"embed"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/*.lua
var lua embed.FS

// Lua returns the named scripts, concatenated.
func Lua(scripts embed.FS, names ...string) (text string) {
	for _, name := range names {
		one, err := scripts.ReadFile("lua/" + name + ".lua")
		if err != nil {
			panic(err)
		}
		text += string(one)
	}
	return text
}

type script struct {
	*redis.Script
	text string
}

var (
	acquireScript    = guarded("acquire")
	renewScript      = guarded("renew")
	reassertScript   = guarded("reassert")
	releaseScript    = guarded("release")
	observeScript    = guarded("observe")
	nodesScript      = guarded("nodes")
	ownersScript     = guarded("owners")
	newsScript       = guarded("news")
	beatScript       = guarded("beat")
	leaveScript      = guarded("leave")
	supersedeScript  = guarded("supersede")
	quarantineScript = guarded("quarantine")
	replicasScript   = guarded("replicas")
	passScript       = redis.NewScript(Lua(lua, "pass"))
	doneScript       = redis.NewScript(Lua(lua, "done"))
	bootstrapScript  = redis.NewScript(Lua(lua, "life", "bootstrap"))
	probeScript      = redis.NewScript(Lua(lua, "probe"))
	sweepScript      = redis.NewScript(Lua(lua, "sweep"))
)

func guarded(name string) *script {
	text := EpochText() + Lua(lua, name)
	return &script{redis.NewScript(text), text}
}
