package redisstore_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/internal/redistest"
)

// For each user of docs/redis.md, Permitted finds a missing right, and the line in its error grants it.
func TestPermitted(t *testing.T) { // G8
	server := redistest.Start(t)
	for kind, u := range map[string]struct {
		use    redisstore.Use
		option redisstore.Options
	}{
		"keeper":   {redisstore.Use{}, redisstore.Options{}},
		"manager":  {redisstore.Use{Registry: true}, redisstore.Options{Replicas: 1}},
		"election": {redisstore.Use{Registry: true, Leases: []string{"leader"}}, redisstore.Options{ExactKeys: true}},
	} {
		rules := u.option.Rules(u.use)
		set := func(words ...string) {
			line := []any{"ACL", "SETUSER", kind}
			for _, w := range words {
				line = append(line, w)
			}
			server.Do(line...)
		}
		s := newStore(t, client(t, redis.Options{Addr: server.Addr(), Username: kind, Password: "pw"}), u.option)
		without := func(one string) []string {
			words := []string{"reset", "on", ">pw", "resetchannels"}
			for _, w := range strings.Fields(rules.String()) {
				if w != one {
					words = append(words, w)
				}
			}
			return words
		}
		for _, one := range append([]string{""}, strings.Fields(rules.String())...) {
			if one == "+info" {
				continue // Check warns of it
			}
			set(without(one)...)
			err := s.Permitted(t.Context(), u.use)
			if one == "" {
				if err != nil {
					t.Errorf("%s: %v", kind, err)
				}
				continue
			}
			if !errors.Is(err, redisstore.ErrDenied) || !errors.Is(err, redisstore.ErrRefused) {
				t.Errorf("%s without %s: %v", kind, one, err)
				continue
			}
			_, line := redisstore.Grant(err)
			if want := "ACL SETUSER " + kind + " " + rules.String(); line != want || !strings.HasSuffix(err.Error(), "; grant it with: "+want) {
				t.Errorf("%s without %s: %v", kind, one, err)
			}
			set(strings.Fields(line)[3:]...)
			if err := s.Permitted(t.Context(), u.use); err != nil {
				t.Errorf("%s: with the line pasted: %v", kind, err)
			}
		}
	}
	if keys, _ := server.Do("KEYS", "*").([]any); len(keys) != 0 {
		t.Errorf("keys left behind: %v", keys)
	}
}

func TestPermittedWithoutACommand(t *testing.T) {
	s := newStore(t, redistest.Start(t, redistest.Args("--rename-command", "HSET", "")).Client(), redisstore.Options{})
	if err := s.Permitted(t.Context(), redisstore.Use{}); !errors.Is(err, redisstore.ErrDenied) || !strings.Contains(err.Error(), "no command hset") {
		t.Error(err)
	}
}

// If Redis refuses all writes, the error has the server's text and names no missing right.
func TestPermittedWhereWritesAreRefused(t *testing.T) {
	for name, refuse := range map[string]func(*redistest.Server){
		"OOM":        func(s *redistest.Server) { s.Do("CONFIG", "SET", "maxmemory", "1") },
		"NOREPLICAS": func(s *redistest.Server) { s.Do("CONFIG", "SET", "min-replicas-to-write", "1") },
		"READONLY":   (*redistest.Server).ReadOnly,
	} {
		t.Run(name, func(t *testing.T) {
			srv := redistest.Start(t)
			s := newStore(t, srv.Client(), redisstore.Options{})
			refuse(srv)
			err := s.Permitted(t.Context(), redisstore.Use{Registry: true})
			if !errors.Is(err, redisstore.ErrRefused) || errors.Is(err, redisstore.ErrDenied) || !strings.Contains(err.Error(), name) {
				t.Fatalf("Permitted: %v, want ErrRefused and %s", err, name)
			}
		})
	}
}
