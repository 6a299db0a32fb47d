package node

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/leasestorm/leasestorm/lease/intent/api"
)

// The API reads a changed file of tokens within a second. An invalid one changes nothing, and the log names it once.
func TestTokenFileIsReadAgain(t *testing.T) {
	name := filepath.Join(t.TempDir(), "tokens")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const first = "a sha256:" + hex64 + " v3:read\n"
	second := "b sha256:" + strings.Repeat("cd", 32) + " v3:read\n"
	write(first + second)
	f := &tokenFile{name: name}
	if tokens, err := f.read(); err != nil || len(tokens) != 2 || !f.stays {
		t.Fatalf("%v, %v", tokens, err)
	}
	core, logs := observer.New(zap.InfoLevel)
	var got [][]string
	set := func(tokens []api.Token) error {
		var names []string
		for _, token := range tokens {
			names = append(names, token.Name)
		}
		if len(names) == 0 {
			return errors.New("none")
		}
		got = append(got, names)
		return nil
	}
	synctest.Test(t, func(t *testing.T) {
		go f.watch(t.Context(), set, zap.New(core))
		for i, step := range []struct {
			text  string
			sets  int
			warns string // in the last warning
			told  int
		}{
			{first + second, 0, "", 0},
			{first, 1, "", 0},
			{first + first, 1, "line 2", 1},
			{"", 1, "none", 2},
			{second, 2, "none", 2},
		} {
			write(step.text)
			<-time.After(3 * tokensEvery)
			synctest.Wait()
			warnings := logs.FilterLevelExact(zap.WarnLevel).All()
			if len(got) != step.sets || len(warnings) != step.told ||
				step.told > 0 && !strings.Contains(warnings[step.told-1].ContextMap()["error"].(string), step.warns) {
				t.Errorf("step %d: set %v, told %v", i, got, warnings)
			}
		}
	})
	if want := [][]string{{"a"}, {"b"}}; !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("%v, want %v", got, want)
	}
}
