package redisstore

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/leasestorm/leasestorm/internal/core"
)

// ParseNotice rejects a message longer than any notice, because splitting it would take much memory.
func TestLongNoticesAreNotRead(t *testing.T) {
	if n, ok := ParseNotice("taken a" + strings.Repeat(" x", noticeMax)); ok {
		t.Errorf("a notice of %d words was read", len(n.IDs))
	}
	op := &core.Op{Kind: core.OpAsk, Owner: "a"}
	for i := range 60_000 {
		op.Items = append(op.Items, core.Item{ID: fmt.Sprintf("00000000-0000-4000-8000-%012d", i), Peer: "b"})
	}
	texts := AskTexts(op)
	var heard []string
	for _, text := range texts {
		n, ok := ParseNotice(text)
		if !ok || n.From != "a" || n.Kind != core.NoticeAsked || n.Peers[0] != "b" {
			t.Fatalf("%.60q is heard as %v, %v", text, n.From, ok)
		}
		heard = append(heard, n.IDs...)
	}
	if len(texts) < 2 || !slices.EqualFunc(op.Items, heard, func(it core.Item, id string) bool { return it.ID == id }) {
		t.Errorf("%d messages with %d IDs, want several with %d", len(texts), len(heard), len(op.Items))
	}
}

// The longest notice is accepted: it releases the maximum number of leases, all with the longest names.
func TestTheLongestNoticeIsHeard(t *testing.T) {
	name := func(i int) string { return fmt.Sprintf("%0*d", NameMax, i) }
	freed := wordFreed + " " + name(0)
	for i := range ItemsMax {
		freed += " " + name(i) + " " + name(0)
	}
	n, ok := ParseNotice(freed)
	if !ok || len(n.IDs) != ItemsMax || len(n.Peers) != ItemsMax {
		t.Errorf("%d bytes, of %d that are heard: %v, %d IDs", len(freed), noticeMax, ok, len(n.IDs))
	}
	op := &core.Op{Kind: core.OpAsk, Owner: name(0)}
	for i := range 5 * ItemsMax {
		op.Items = append(op.Items, core.Item{ID: name(i), Peer: name(0)})
	}
	for _, text := range AskTexts(op) {
		if n, ok := ParseNotice(text); !ok {
			t.Errorf("%d bytes that are asked for are not heard: %v", len(text), n.Kind)
		}
	}
}
