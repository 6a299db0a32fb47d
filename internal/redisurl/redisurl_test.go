package redisurl

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const canary = "c4n4ry"

// However a URL is mistyped, no message has its password.
func TestNothingShowsThePassword(t *testing.T) {
	for _, raw := range []string{
		"redis://:c4n4ry@h:1", "redis://u:c4n4ry@h:1/2", "redis://c4n4ry@h:1", "redis://u:c4n4ry@h:port", "redis://u:a@c4n4ry@h:1",
		"redis://u:%zzc4n4ry@h:1", "redis:/u:c4n4ry@h:1", "redis:u:c4n4ry@h", "rediss://u:c4n4ry@h:1", "redis://u:c4n4ry %40h@h:1",
		"redis://h:1?password=c4n4ry", "redis://h:1/c4n4ry", "redis://u:c4n4ry%40h:1", "http://u:c4n4ry@h", "REDIS://u:c4n4ry@h:1/x",
		"redis://h:1?client_name=c4n4ry", "c4n4ry",
	} {
		_, err := Parse(raw)
		said := Show(raw)
		if err != nil {
			said += err.Error()
		}
		if strings.Contains(said, canary) {
			t.Errorf("%q: %s", raw, said)
		}
		quoted := Hide("unexpected argument \"" + raw + "\"")
		if strings.Contains(raw, "c4n4ry@") && strings.Contains(quoted, canary) {
			t.Errorf("%q: %s", raw, quoted)
		}
	}
	for raw, want := range map[string]string{
		"redis://h:1/2": "redis://h:1/2", "redis://u:p@h:1/2": "redis://…@h:1/2", "steam": "a Redis URL",
	} {
		if got := Show(raw); got != want {
			t.Errorf("Show(%q) = %q, want %q", raw, got, want)
		}
	}
	for text, want := range map[string]string{ // the example is no secret; a password before it is hidden
		ErrURL.Error(): ErrURL.Error(), "redis://u:c4n4ry@h: " + ErrURL.Error(): "redis:…@h: " + ErrURL.Error(),
		"redis://u:c4" + Wanted + "n4ry@h":              "redis:…@h",
		"refused by Redis: dial redis://u:c4n4ry@h: no": "refused by Redis: dial redis:…@h: no",
	} {
		if got := Hide(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
	for _, text := range []string{"nodes: 3 is out of bounds", "dial tcp 127.0.0.1:6379: connection refused", "a@b",
		"not authenticated at Redis: give a password (in a URL: redis://user:password@host): WRONGPASS"} {
		if got := Hide(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}

// Without //, the host would be ignored, and the client would connect to this machine instead.
func TestWhatNamesNoHostIsRefused(t *testing.T) {
	for _, raw := range []string{"redis:h:6380", "rediss:h:6380", "redis:6380", "redis:/h:6380", "redis:/2", "redis:?db=2", "redis:", "REDIS:h:1"} {
		if o, err := Parse(raw); !errors.Is(err, ErrURL) || !strings.Contains(err.Error(), "redis://") {
			t.Errorf("%q: %+v, %v", raw, o, err)
		}
		if _, err := With(raw, "p"); !errors.Is(err, ErrURL) {
			t.Errorf("%q with a password: %v", raw, err)
		}
		if got := Show(raw); got != "a Redis URL" {
			t.Errorf("Show(%q) = %q", raw, got)
		}
	}
	for _, raw := range []string{"unix:/run/redis.sock", "unix:///run/redis.sock"} {
		if o, err := Parse(raw); err != nil || o.Addr != "/run/redis.sock" {
			t.Errorf("%q: %+v, %v", raw, o, err)
		}
	}
}

func TestPasswordFromFile(t *testing.T) {
	dir := t.TempDir()
	file := func(text string) string {
		path := filepath.Join(dir, "password")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for text, want := range map[string]string{"c4n4ry\n": canary, "c4n4ry": canary, "c4n4ry\r\nmore": canary, "a b/@:\n": "a b/@:"} {
		p, err := Password(file(text), "other")
		if err != nil || p != want {
			t.Errorf("%q: %q, %v", text, p, err)
		}
		raw, err := With("redis://u:old@h:1/3", p)
		if err != nil {
			t.Fatal(err)
		}
		if o, err := Parse(raw); err != nil || o.Password != want || o.Username != "u" || o.DB != 3 || o.Addr != "h:1" {
			t.Errorf("%q: %+v, %v", text, o, err)
		}
	}
	for _, path := range []string{dir, dir + "/none"} {
		if _, err := Password(path, ""); !errors.Is(err, ErrPasswordFile) {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, text := range []string{"", "\nc4n4ry", strings.Repeat("x", passwordMax+1)} {
		if _, err := Password(file(text), ""); !errors.Is(err, ErrPasswordFile) {
			t.Errorf("%.9q: %v", text, err)
		}
	}
	if p, err := Password("", canary); p != canary || err != nil {
		t.Errorf("given: %q, %v", p, err)
	}
	if _, err := With("steam", "p"); !errors.Is(err, ErrURL) {
		t.Errorf("no URL: %v", err)
	}
}
