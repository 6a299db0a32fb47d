package redisurl

import (
	"errors"
	"strings"
	"testing"
)

// FuzzURL reads any text. It is refused with ErrURL, or names one server, whatever its password. The password is never shown.
func FuzzURL(f *testing.F) {
	for _, raw := range []string{
		"redis://h:1/2", "redis://u:p@[::1]:1", "rediss://h", "unix:///run/redis.sock?db=3", "unix:/run/x", "redis:h:6380", "redis://h:1?db=2",
		"redis://u:p%40@h%41:1", "redis://@h", "redis:///1", "redis://h:1/2#f", "://", "redis://h:1?read_timeout=1s&db=1", "redis://:@:0",
	} {
		f.Add(raw, "p@ss word/:%")
	}
	f.Fuzz(func(t *testing.T, raw, more string) {
		was, err := Parse(raw)
		password := canary + more
		with, withErr := With(raw, password)
		if err != nil {
			if !errors.Is(err, ErrURL) || !errors.Is(withErr, ErrURL) || Show(raw) != "a Redis URL" {
				t.Fatalf("%q: %v, with a password %v, shown as %q", raw, err, withErr, Show(raw))
			}
			return
		}
		if withErr != nil {
			t.Fatalf("%q: %v", raw, withErr)
		}
		is, err := Parse(with)
		if err != nil || is.Password != password || is.Addr != was.Addr || is.Username != was.Username || is.DB != was.DB || is.Network != was.Network {
			t.Fatalf("%q became %q, which is %+v, %v; want %+v", raw, with, is, err, was)
		}
		if strings.Contains(raw, canary) {
			return // it may be the host
		}
		if said := Show(with) + Hide("argument \""+with+"\""); strings.Contains(said, canary) {
			t.Fatalf("%q: %q", with, said)
		}
	})
}
