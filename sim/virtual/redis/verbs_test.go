package redis

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// Whatever a script of the product calls, the Redis of virtual time knows: an unknown command would be an error that no server gives.
func TestScriptsCallsAreKnown(t *testing.T) {
	called := regexp.MustCompile(`\b(?:redis\.p?call|try|call|soft)\('([A-Z]+)'`)
	for _, dir := range []string{"../../../internal/redisstore/lua", "../../../lease/intent/store/lua"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.lua"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d scripts, %v", dir, len(files), err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, match := range called.FindAllStringSubmatch(string(text), -1) {
				if _, known := verbs[match[1]]; !known && match[1] != "GETRANGE" { // sessions' own keys are not read in virtual time
					t.Errorf("%s calls %s", file, match[1])
				}
			}
		}
	}
}
