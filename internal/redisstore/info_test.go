package redisstore

import (
	"errors"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/core"
)

// What a replica names as its address (REPLCONF ip-address) stands in INFO as it is, line ends too. It is neither the server's word nor
// keeps a replica that acknowledges from being counted.
func TestWhatAReplicaPutsIntoINFO(t *testing.T) {
	const (
		head = "# Server\r\nredis_version:7.0.15\r\nrun_id:ab\r\n# Stats\r\nsync_full:2\r\n# Replication\r\nrole:master\r\nconnected_slaves:3\r\n"
		tail = "master_replid:cd\r\n# CPU\r\nused_cpu_sys:1\r\n"
		acks = ",port=6380,state=online,offset=56,lag=0"
		none = ",port=6380,state=online,offset=0,lag=1"
	)
	for _, c := range []struct {
		address, end string // of the first of three replicas, of which the second acknowledges and the third does not
		acknowledge  int
	}{
		{"10.0.0.1", acks, 2},
		{"10.0.0.1", none, 1},
		{"10.0.0.1", strings.Replace(acks, "online", "wait_bgsave", 1), 1},
		{"10.0.0.1", acks + ",type=replica", 2},
		{"10.0.0.1", strings.Replace(acks, "6380", "-5", 1), 2}, // REPLCONF listening-port takes that
		{"x\r\nredis_version:1.0.0\r\nrun_id:zz\r\nrole:slave\r\nconnected_slaves:0\r\nsync_full:9\r\ny:z", acks, 2},
		{"x\r\nvalkey_version:1\r\n# Server\r\nmaster_host:evil\r\nz:", none, 1},
		{"x" + none + "\r\nslave1:ip=10.0.0.2" + none + "\r\nslave01:ip=x", acks, 2},
		{"x" + none, acks, 2},
		{"x\r\nslave1:ip=x" + none + "\r\nslave1:ip=x", none, 1},
		{"x\r\n" + strings.Repeat("slave7:ip=x"+acks+"\r\n", 9), acks, 3}, // never more than are connected
		{strings.Repeat("x", 70_000), acks, 2},
	} {
		for _, eol := range []string{"\r\n", "\n"} {
			text := strings.ReplaceAll(head+"slave0:ip="+c.address+c.end+"\r\nslave1:ip=10.0.0.2"+acks+"\r\nslave2:ip=10.0.0.3"+none+"\r\n"+tail,
				"\r\n", eol)
			info := parseInfo(text, "")
			f := info.Fields
			if f["redis_version"] != "7.0.15" || f["run_id"] != "ab" || f["role"] != "master" || f["connected_slaves"] != "3" || f["sync_full"] != "2" ||
				f["valkey_version"]+f["master_host"] != "" {
				t.Errorf("%.80q: %q", c.address, f)
			}
			if info.Acknowledging != c.acknowledge {
				t.Errorf("%.80q, %s: %d acknowledge, want %d", c.address, c.end, info.Acknowledging, c.acknowledge)
			}
		}
	}
}

// What a server puts into its answers is no way to have the password shown: not by what our errors, findings and entries say of an answer
// that cannot be, nor escaped.
func TestAnswersAreNotQuoted(t *testing.T) {
	for _, canary := range []string{"C4n4ryPlain", `C4n"4ry\Quoted`} {
		said := "xx " + canary + " yy"
		var errs []error
		for _, reply := range [][]any{{said, 1, said, 1, ""}, {strings.Repeat(said, 20), int64(1), int64(1), int64(1), ""}} {
			_, err := decodeHead(reply, &core.Answer{})
			errs = append(errs, err)
		}
		errs = append(errs, decodeItems([]any{said}, make([]core.Result, 1)), decodeItems([]any{"G", said, said, said}, make([]core.Result, 1)))
		for _, version := range []string{said, "1.0.0-" + canary} {
			for _, f := range Judge(parseInfo("redis_version:"+version+"\nrun_id:a\nrole:slave\nmaster_host:"+said+"\nmaster_port:"+said+
				"\nmaxmemory:5\nmaxmemory_policy:"+said, canary), 0) {
				errs = append(errs, errors.New(f.What+f.Consequence+f.Mend), f.Err)
			}
		}
		client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", Password: canary})
		defer client.Close()
		s, err := New(client, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		g := Group{Epoch: said, Info: Info{password: canary}}
		errs = append(errs, errors.New(s.Shown(said)), g.readEpoch("k"))
		if len(errs) < 12 {
			t.Fatalf("%d errors: %v", len(errs), errs)
		}
		for _, err := range errs {
			if err != nil && (strings.Contains(err.Error(), "4ry") || len(err.Error()) > 400) {
				t.Error(err)
			}
		}
	}
}
