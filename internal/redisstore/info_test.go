package redisstore

import (
	"strings"
	"testing"
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
			info := parseInfo(text)
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
