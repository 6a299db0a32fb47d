package redisstore_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/leasestorm/leasestorm/internal/redisstore"
)

// No script calls a command that the rules leave out.
func TestRulesHaveTheCommandsOfScripts(t *testing.T) {
	rules := redisstore.Options{}.Rules(redisstore.Use{Registry: true})
	scripts, err := filepath.Glob("lua/*.lua")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	calls := regexp.MustCompile(`(?:call|try)\('([A-Z]+)'`)
	for _, script := range scripts {
		text, err := os.ReadFile(script)
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range calls.FindAllStringSubmatch(string(text), -1) {
			if !slices.Contains(rules.Commands, strings.ToLower(call[1])) {
				t.Errorf("%s calls %s, which no rule allows", script, call[1])
			}
		}
	}
}
