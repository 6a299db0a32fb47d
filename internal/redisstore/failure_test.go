package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/core"
)

// replyError is an error reply of Redis.
type replyError string

func (e replyError) Error() string { return string(e) }
func (replyError) RedisError()     {}

func TestFailure(t *testing.T) {
	dial := &net.OpError{Op: "dial", Err: errors.New("refused")}
	tests := []struct {
		err  error
		want core.Failure
	}{
		{replyError("LOADING Redis is loading the dataset in memory"), core.FailRefused},
		{replyError("READONLY You can't write against a read only replica. script: f0, on @user_script:36."), core.FailRefused},
		{replyError("ERR Error running script (call to f_0): @user_script:9: -READONLY You can't"), core.FailRefused},
		{replyError("ERR Error running script (call to f_0): @user_script:9: -OOM command not allowed"), core.FailRefused},
		{replyError("NOAUTH Authentication required."), core.FailRefused},
		{replyError("OOM command not allowed when used memory > 'maxmemory'."), core.FailRefused},
		{replyError("MASTERDOWN Link with MASTER is down"), core.FailRefused},
		{replyError("BUSY Redis is busy running a script."), core.FailRefused},
		{replyError("MOVED 3999 127.0.0.1:6381"), core.FailRefused},
		{replyError("ERR max number of clients reached"), core.FailRefused},
		{replyError("ERR unknown command 'evalsha'"), core.FailRefused},
		{replyError("NOPERM this user has no permissions to run the 'evalsha' command"), core.FailRefused},
		// In the middle of a script, which may already have written.
		{replyError("NOPERM no permissions to run the 'set' command script: f0, on @user_script:36."), core.FailUnknown},
		{replyError("ERR Error running script (call to f_0): @user_script:9: attempt to index a nil value"), core.FailUnknown},
		{replyError("ERR something new"), core.FailUnknown},
		{fmt.Errorf("wrapped: %w", dial), core.FailUnsent},
		{&net.OpError{Op: "read", Err: errors.New("reset")}, core.FailUnknown},
		{redis.ErrPoolTimeout, core.FailUnsent},
		{redis.ErrClosed, core.FailUnsent},
		{context.DeadlineExceeded, core.FailUnknown},
		{context.Canceled, core.FailUnknown},
		{errors.New("EOF"), core.FailUnknown},
	}
	for _, tt := range tests {
		if got, text := failure(tt.err); got != tt.want || text == "" {
			t.Errorf("failure(%v) = %d, %q; want %d and a text", tt.err, got, text, tt.want)
		}
	}
}

func TestJudge(t *testing.T) {
	tests := []struct {
		name     string
		info     string
		err      error
		warnings int
	}{
		{"good", "redis_version:7.0.15\r\nrun_id:ab\r\nrole:master\r\nmaxmemory:0\r\nmaxmemory_policy:allkeys-lru", nil, 0},
		{"oldest", "redis_version:6.2.0\r\nrun_id:ab", nil, 0},
		{"too old", "redis_version:6.0.16\r\nrun_id:ab", ErrTooOld, 0},
		{"no version", "run_id:ab", nil, 1},
		{"strange version", "redis_version:unstable\r\nrun_id:ab", nil, 1},
		{"no run_id", "redis_version:7.0.15", nil, 1},
		{"replica", "redis_version:7.0.15\r\nrun_id:ab\r\nrole:slave\r\nslave_read_only:1", ErrReadOnly, 0},
		{"evicts", "redis_version:7.0.15\r\nrun_id:ab\r\nmaxmemory:100\r\nmaxmemory_policy:volatile-ttl", nil, 1},
		{"fills up", "redis_version:7.0.15\r\nrun_id:ab\r\nmaxmemory:100\r\nmaxmemory_policy:noeviction", nil, 0},
	}
	for _, tt := range tests {
		warnings, err := verdict(Judge(parseInfo(tt.info), 0))
		if !errors.Is(err, tt.err) || len(warnings) != tt.warnings {
			t.Errorf("%s: %v, %q; want %v and %d warnings", tt.name, err, warnings, tt.err, tt.warnings)
		}
	}
}

func FuzzParseNotice(f *testing.F) {
	for _, s := range []string{
		"", "taken", "taken a", "taken a x y", "freed a x", "freed a x -", "freed a x b y -", "joined a", "left a", "asked a b",
		"asked a b x", "give a b x 7", "give a b x", "give a b x -1", "joined a b", "later a x", "taken  x",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, ok := ParseNotice(s)
		if !ok {
			return
		}
		if n.From == "" || n.Kind == 0 || n.Kind == core.NoticeFreed && len(n.IDs) != len(n.Peers) ||
			n.Kind == core.NoticeAsked && (len(n.Peers) != 1 || len(n.IDs) == 0) || n.Kind == NoticeGive && (len(n.Peers) != 2 || len(n.IDs) != 1) {
			t.Fatalf("ParseNotice(%q) = %+v", s, n)
		}
	})
}
