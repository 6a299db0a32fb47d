package node

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/leasestorm/leasestorm/lease/intent/api"
)

// A file of tokens that others than its owner can write is no file of tokens.
func TestTokenFileOfOthersIsRefused(t *testing.T) {
	name := filepath.Join(t.TempDir(), "tokens")
	write(t, name, "a sha256:"+hex64+" v3:read\n")
	env := map[string]string{"LEASESTORM_REDIS_URL": "redis://127.0.0.1:1", "LEASESTORM_TOKENS_FILE": name}
	for mode, refused := range map[os.FileMode]bool{0o600: false, 0o644: false, 0o664: true, 0o620: true, 0o666: true, 0o602: true} {
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
		_, err := parseIntents(nil, func(name string) string { return env[name] }, io.Discard, true)
		if refused != (err != nil && strings.Contains(err.Error(), "chmod")) || !refused && err != nil {
			t.Errorf("%v: %v", mode, err)
		}
	}
}

// A file of tokens that changes is read again within a second. One that is wrong changes nothing, and is told of once.
func TestTokenFileIsReadAgain(t *testing.T) {
	name := filepath.Join(t.TempDir(), "tokens")
	const first = "a sha256:" + hex64 + " v3:read\n"
	second := "b sha256:" + strings.Repeat("cd", 32) + " v3:read\n"
	write(t, name, first+second)
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
			mode  os.FileMode
			sets  int
			warns string // in the last of so many warnings
			told  int
		}{
			{first + second, 0o600, 0, "", 0},
			{first, 0o600, 1, "", 0},
			{second, 0o620, 1, "chmod", 1},
			{second, 0o620, 1, "chmod", 1},
			{first + first, 0o600, 1, "line 2", 2},
			{first + strings.Replace(second, "b", "a", 1), 0o600, 1, "called", 3},
			{"", 0o600, 1, "none", 4},
			{first, 0o600, 1, "none", 4},
			{"", 0o600, 1, "none", 5},
			{second, 0o600, 2, "none", 5},
		} {
			write(t, name, step.text)
			if err := os.Chmod(name, step.mode); err != nil {
				t.Fatal(err)
			}
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

// A token that is taken out is refused though nobody reads the log.
func TestTokenFileIsReadAgainWithoutALog(t *testing.T) {
	name := filepath.Join(t.TempDir(), "tokens")
	write(t, name, "a sha256:"+hex64+" v3:read\n")
	f := &tokenFile{name: name}
	if _, err := f.read(); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		core, _ := observer.New(zap.InfoLevel)
		stalled := zapcore.RegisterHooks(core, func(zapcore.Entry) error {
			<-t.Context().Done()
			return nil
		})
		sets := 0
		go f.watch(t.Context(), func([]api.Token) error { sets++; return nil }, zap.New(stalled))
		for i := range 3 {
			write(t, name, strings.Repeat("#\n", i)+"b sha256:"+hex64+" v3:read\n")
			<-time.After(3 * tokensEvery)
			synctest.Wait()
		}
		if sets != 3 {
			t.Errorf("tokens were taken over %d times, want 3", sets)
		}
	})
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// What the file said the last time is not taken apart again, whether it was tokens or not: somebody who may write it has only its reading
// cost something each second.
func TestTokenFileIsTakenApartOnce(t *testing.T) {
	name := filepath.Join(t.TempDir(), "tokens")
	write(t, name, "a sha256:"+hex64+" v3:read\n")
	f := &tokenFile{name: name}
	if _, err := f.read(); err != nil {
		t.Fatal(err)
	}
	const bytes = 1 << 20
	for what, text := range map[string]string{"good": f.text, "bad": strings.Repeat("# \n", bytes/4) + "a"} {
		write(t, name, text)
		_ = f.again(nil, nil)
		before := f.why
		took := testing.AllocsPerRun(10, func() { _ = f.again(nil, nil) })
		if took > 60 {
			t.Errorf("%s: %v allocations", what, took)
		}
		if before != f.why { //nolint:errorlint // the very same
			t.Errorf("%s: another error, %v", what, f.why)
		}
	}
}
