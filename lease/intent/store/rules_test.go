package store

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/leasestorm/leasestorm/internal/redisstore"
)

// The rules of a worker have every command of the scripts, and those of an API have every command of its scripts that read.
func TestRulesHaveTheCommandsOfScripts(t *testing.T) {
	opt := Options{}.withDefaults()
	rules, api := opt.workerRules(nil), opt.apiRules()
	calls := regexp.MustCompile(`(?:call|soft)\('([A-Z]+)'`)
	for _, call := range calls.FindAllStringSubmatch(redisstore.Lua(lua, "read"), -1) {
		if !slices.Contains(api.Commands, strings.ToLower(call[1])) {
			t.Errorf("a script that reads calls %s, which no rule of an API allows", call[1])
		}
	}
	for _, name := range []string{"common", "put", "stop", "write", "beat", "leave", "sweep", "disown", "bury", "requeue", "busy", "lease"} {
		for _, call := range calls.FindAllStringSubmatch(redisstore.Lua(lua, name), -1) {
			if !slices.Contains(rules.Commands, strings.ToLower(call[1])) {
				t.Errorf("a script calls %s, which no rule allows", call[1])
			}
		}
	}
}
