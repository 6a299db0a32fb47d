package redisstore

import (
	"fmt"
	"testing"

	"github.com/leasestorm/leasestorm/internal/core"
)

// FuzzAsk publishes an ask with any names that the store accepts. Subscribers must read the same names.
func FuzzAsk(f *testing.F) {
	f.Add("me", "other", "a", "b")
	f.Add("-", "", "a b", "\n")
	f.Add("host-1-f", "-x", "freed", ":fence")
	w, err := NewWire(Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, from, peer, one, two string) {
		op := &core.Op{Kind: core.OpAsk, Owner: from, Items: []core.Item{{ID: one, Peer: peer}, {ID: two}}}
		if w.Validate(op) != nil {
			return
		}
		n, ok := ParseNotice(AskText(op))
		want := core.Notice{Kind: core.NoticeAsked, From: from, Peers: []string{peer}, IDs: []string{one, two}}
		if !ok || fmt.Sprintf("%#v", n) != fmt.Sprintf("%#v", want) {
			t.Fatalf("%q is heard as %#v, %v; want %#v", AskText(op), n, ok, want)
		}
	})
}
