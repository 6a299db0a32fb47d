package clusternodes

import "testing"

// reply is a reply of Redis 7.0: a master whose slot 7 leaves and slot 9 arrives, one that may have failed, a replica that may not become a
// master, and a new server.
const reply = `a1 127.0.0.1:7001@17001 myself,master - 0 1700000000000 1 connected 0-5 7 [7->-b2] [9-<-b2]
b2 127.0.0.1:7002@17002,host master,fail? - 1700000000000 1700000000000 2 connected 8-16383
c3 127.0.0.1:7003@17003 slave,nofailover a1 0 1700000000000 1 connected
d4 127.0.0.1:7004@17004 handshake - 1700000000000 0 0 disconnected
vars currentEpoch 2 lastVoteEpoch 0
`

func TestReplyOfRedis(t *testing.T) {
	want := []struct {
		id, addr     string
		master, well bool
		owns         int64
		others       int64
	}{
		{"a1", "127.0.0.1:7001", true, true, 5, 9},
		{"b2", "127.0.0.1:7002", true, false, 9, 7},
		{"c3", "127.0.0.1:7003", false, true, -1, 0},
		{"d4", "127.0.0.1:7004", false, false, -1, 0},
	}
	nodes := Read(reply)
	if len(nodes) != len(want) {
		t.Fatalf("%d servers, want %d: %v", len(nodes), len(want), nodes)
	}
	for i, w := range want {
		n := nodes[i]
		if n.ID != w.id || n.Addr != w.addr || n.Is("master") != w.master || n.Well() != w.well {
			t.Errorf("%v, want %v", n, w)
		}
		if w.owns >= 0 && !n.Owns(w.owns) || n.Owns(w.others) {
			t.Errorf("%v: it owns %d and not %d", n, w.owns, w.others)
		}
	}
	if n := nodes[0]; n.Owns(6) || !n.Owns(7) || !n.Owns(0) {
		t.Errorf("%v: it owns 0-5 and 7", n)
	}
}
