package redisstore

import (
	"strings"
	"testing"
)

// A replica counts once it has acknowledged something.
func TestWhoAcknowledges(t *testing.T) {
	const acks = "slave0:ip=10.0.0.1,port=6380,state=online,offset=56,lag=0"
	for line, want := range map[string]int{
		acks: 1, acks + ",type=replica": 1, strings.Replace(acks, "10.0.0.1", "::1", 1): 1, acks + "\r\n" + acks: 2,
		strings.Replace(acks, "=56", "=0", 1): 0, strings.Replace(acks, "online", "wait_bgsave", 1): 0, "slave_read_only:1": 0, "": 0,
	} {
		info := parseInfo("# Server\r\nredis_version:7.0.15\r\nrole:master\r\n" + line + "\r\nmaster_replid:cd\r\n")
		if info.Acknowledging != want || info.Fields["redis_version"] != "7.0.15" || info.Fields["master_replid"] != "cd" {
			t.Errorf("%q: %+v, want that %d acknowledge", line, info, want)
		}
	}
}
