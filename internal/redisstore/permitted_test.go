package redisstore_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/internal/redistest"
)

// What an ACL takes away is named in one line that gives it back, with no key or channel that the user has: Redis would not
// take it.
func TestPermitted(t *testing.T) { // G8
	all := []string{"on", ">pw", "~poll:*", "~{poll:lease:*", "&poll:notify", "+@all"}
	tests := []struct {
		name   string
		take   []string
		rules  string // that must be named, and no other keys and channels
		use    redisstore.Use
		option redisstore.Options
	}{
		{"nothing", nil, "", redisstore.Use{Registry: true}, redisstore.Options{}},
		{"SET", []string{"-set"}, "+set", redisstore.Use{}, redisstore.Options{}},
		{"SET and DEL", []string{"-set", "-del"}, "+set +del", redisstore.Use{}, redisstore.Options{}},
		{"EVALSHA", []string{"-evalsha"}, "+evalsha", redisstore.Use{}, redisstore.Options{}},
		{"EVAL", []string{"-eval"}, "+eval", redisstore.Use{}, redisstore.Options{}},
		{"scripts", []string{"-@scripting"}, "+evalsha +eval", redisstore.Use{}, redisstore.Options{}},
		{"PING", []string{"-ping"}, "+ping", redisstore.Use{}, redisstore.Options{}},
		{"PUBLISH", []string{"-publish"}, "+publish", redisstore.Use{}, redisstore.Options{}},
		{"SUBSCRIBE", []string{"-subscribe"}, "+subscribe", redisstore.Use{}, redisstore.Options{}},
		{"the channel", []string{"resetchannels", "&other"}, "&poll:notify", redisstore.Use{}, redisstore.Options{}},
		{"SCAN", []string{"-scan"}, "+scan", redisstore.Use{Registry: true}, redisstore.Options{}},
		{"HSET", []string{"-hset"}, "+hset", redisstore.Use{}, redisstore.Options{}},
		{"MGET, which a keeper does not need", []string{"-mget", "-scan"}, "", redisstore.Use{}, redisstore.Options{}},
		{"EXISTS, which a keeper does not need", []string{"-exists"}, "", redisstore.Use{}, redisstore.Options{}},
		{"EXISTS", []string{"-exists"}, "+exists", redisstore.Use{Registry: true}, redisstore.Options{}},
		{"MGET", []string{"-mget"}, "+mget", redisstore.Use{Registry: true}, redisstore.Options{}},
		{"fences", []string{"resetkeys", "~poll:*"}, "~{poll:lease:*}:fence", redisstore.Use{}, redisstore.Options{}},
		{"leases", []string{"resetkeys", "~poll:node:*", "~poll:epoch*", "~{poll:lease:*"}, "~poll:lease:*",
			redisstore.Use{Registry: true}, redisstore.Options{}},
		{"heartbeats, which a keeper does not need", []string{"resetkeys", "~poll:lease:*", "~poll:epoch*", "~{poll:lease:*"},
			"", redisstore.Use{}, redisstore.Options{}},
		{"heartbeats and the epoch", []string{"resetkeys", "~poll:lease:*", "~{poll:lease:*"}, "~poll:epoch ~poll:epoch:group ~poll:node:*",
			redisstore.Use{Registry: true}, redisstore.Options{}},
		{"a key and a command", []string{"resetkeys", "~poll:*", "-pexpire"}, "~{poll:lease:*}:fence +pexpire",
			redisstore.Use{}, redisstore.Options{}},
		{"SET, of all keys and channels", []string{"~*", "&*", "-set"}, "+set", redisstore.Use{Registry: true}, redisstore.Options{}},
		{"everything", []string{"reset", "on", ">pw"}, "~poll:epoch ~poll:epoch:group ~poll:lease:* ~{poll:lease:*}:fence " +
			"~poll:node:* &poll:notify +info +set", redisstore.Use{Registry: true}, redisstore.Options{}},
		{"an exact key", []string{"resetkeys", "~poll:*"}, "~leader ~{leader}:fence", redisstore.Use{Leases: []string{"leader"}},
			redisstore.Options{ExactKeys: true}},
	}
	srv := redistest.Start(t)
	srv.Do("SET", "leader", "me")
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			user := "u" + string(rune('a'+i))
			set := []any{"ACL", "SETUSER", user}
			for _, rule := range append(append([]string{}, all...), tt.take...) {
				set = append(set, rule)
			}
			srv.Do(set...)
			s := newStore(t, client(t, redis.Options{Addr: srv.Addr(), Username: user, Password: "pw"}), tt.option)
			if _, err := s.Check(t.Context()); err != nil {
				t.Fatalf("Check: %v", err)
			}
			err := s.Permitted(t.Context(), tt.use)
			if tt.rules == "" {
				if err != nil {
					t.Fatalf("Permitted: %v", err)
				}
				return
			}
			if !errors.Is(err, redisstore.ErrDenied) || !errors.Is(err, redisstore.ErrRefused) {
				t.Fatalf("Permitted: %v, want ErrDenied and ErrRefused", err)
			}
			_, named, _ := strings.Cut(err.Error(), "ACL SETUSER "+user+" ")
			named, _, _ = strings.Cut(named, "; Redis said: ")
			patterns := 0
			for _, rule := range strings.Fields(tt.rules) {
				if !strings.Contains(" "+named+" ", " "+rule+" ") {
					t.Errorf("%v: does not name %s", err, rule)
				}
			}
			set = []any{"ACL", "SETUSER", user}
			for _, rule := range strings.Fields(named) {
				set = append(set, rule)
				if patterns++; rule[0] == '+' || strings.Contains(" "+tt.rules+" ", " "+rule+" ") {
					patterns--
				}
			}
			if patterns > 0 {
				t.Errorf("%v: names more keys or channels than %s", err, tt.rules)
			}
			srv.Do(set...)
			if err := s.Permitted(t.Context(), tt.use); err != nil {
				t.Errorf("with the rules named: %v", err)
			}
		})
	}
	if keys, _ := srv.Do("KEYS", "*").([]any); len(keys) != 1 || srv.Do("GET", "leader") != "me" {
		t.Errorf("keys left behind or changed: %v", keys)
	}
}

// Writes that are refused of everybody are no matter of permission, and told in the server's words.
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

// repeats has Redis refuse SUBSCRIBE as a command that it does not know, and repeat what follows: the password.
type repeats struct{ net.Conn }

func (r repeats) Write(b []byte) (int, error) {
	if !bytes.Contains(b, []byte("subscribe")) {
		return r.Conn.Write(b)
	}
	_, err := r.Conn.Write([]byte("*2\r\n$4\r\nnone\r\n$6\r\ns3cret\r\n"))
	return len(b), err
}

// Who repeats the password as he refuses the channel does not have it shown.
func TestPermittedShowsNoPassword(t *testing.T) {
	srv := redistest.Start(t)
	srv.Do("ACL", "SETUSER", "me", "on", ">s3cret", "~*", "&*", "+@all")
	c := client(t, redis.Options{
		Addr: srv.Addr(), Username: "me", Password: "s3cret",
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
			return repeats{conn}, err
		},
	})
	s, err := redisstore.New(c, redisstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	err = s.Permitted(t.Context(), redisstore.Use{})
	if err == nil || !strings.Contains(err.Error(), "unknown command 'none'") || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("%v, want what Redis said without the password", err)
	}
}
