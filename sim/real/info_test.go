package real

import (
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"
)

// What a replica calls itself stands in INFO as it is, line ends too, and is not the server's word.
func TestWhatAReplicaCallsItselfIsNotTheServersWord(t *testing.T) {
	const honest = "# Server\r\nredis_version:7.0.15\r\n# Replication\r\nrole:master\r\nconnected_slaves:1\r\nslave0:ip="
	r := Redis{admin: &redis.Options{}}
	if err := r.read("here", honest+"x\r\nredis_version:1.0.0\r\nvalkey_version:9\r\nrole:slave\r\nz:,port=1,state=online"); err != nil || r.version != "7.0.15" {
		t.Errorf("%v, version %q", err, r.version)
	}
	if err := r.read("here", "redis_version:6.0.0\r\nredis_version:7.0.0\r\n"); !errors.Is(err, ErrTooOld) {
		t.Error(err)
	}
}
