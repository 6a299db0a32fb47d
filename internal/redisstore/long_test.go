package redisstore

import (
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/leasestorm/leasestorm/internal/core"
)

// Whoever may publish can send what takes all memory when it is cut into words. What an instance itself says is never so long.
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

// The longest that an instance says is heard: it gives back as many leases as one operation may have, all of the longest names.
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

// What it is cut into takes no more than it does itself, however short the words are, or none.
func TestNoticesOfManyWordsAreNotRead(t *testing.T) {
	for _, word := range []string{" ", " x", " x -"} {
		for _, first := range []string{"freed a", "taken a", "asked a b"} {
			text := first + strings.Repeat(word, noticeMax/len(word)-20)
			var n core.Notice
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range 10 {
				n, _ = ParseNotice(text)
			}
			runtime.ReadMemStats(&after)
			if taken := (after.TotalAlloc - before.TotalAlloc) / 10; taken > noticeMax || len(n.IDs) > 0 {
				t.Errorf("%s and %d times %q: %d IDs, and %d bytes to read them", first, noticeMax/len(word)-20, word, len(n.IDs), taken)
			}
		}
	}
	op := &core.Op{Kind: core.OpAsk, Owner: "a"}
	for i := range 3 * wordsMax {
		op.Items = append(op.Items, core.Item{ID: strconv.FormatInt(int64(i), 36), Peer: "b"})
	}
	heard := 0
	for _, text := range AskTexts(op) {
		n, ok := ParseNotice(text)
		if !ok {
			t.Errorf("%.30q… is not heard", text)
		}
		heard += len(n.IDs)
	}
	if heard != len(op.Items) {
		t.Errorf("%d of %d names are heard", heard, len(op.Items))
	}
}

// What is remembered of a notice, for each lease that is waited for, is who says it: neither a name of any length, nor with it the message.
func TestOfANoticeTheNameIsKept(t *testing.T) {
	long := strings.Repeat("x", noticeMax/2)
	for _, text := range []string{"taken " + long + " id", "freed " + long + " id b", "joined " + long} {
		if _, ok := ParseNotice(text); ok {
			t.Errorf("%.20q… is heard, of a name of %d bytes", text, len(long))
		}
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var names []string
	for i := range 100 {
		n, ok := ParseNotice(fmt.Sprintf("taken somebody%d id %s", i, long))
		if !ok {
			t.Fatal("a notice is passed over")
		}
		names = append(names, n.From)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if kept := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) >> 20; kept > 5 {
		t.Errorf("%d names keep %d MiB", len(names), kept)
	}
	runtime.KeepAlive(names)
}

// Nor can who publishes on the sentinels' channel have the words of any number of them remembered.
func TestSentinelsAreNotRememberedWithoutEnd(t *testing.T) {
	m, said := &master{doubted: make(chan struct{}, 1)}, map[string]string{}
	for i := range 10 * sentinelsMax {
		m.hello(fmt.Sprintf("127.0.0.1,26379,id%d,1,mymaster,127.0.0.1,6379,1", i), said)
	}
	if len(said) > sentinelsMax {
		t.Errorf("the words of %d sentinels are kept, want at most %d", len(said), sentinelsMax)
	}
	clear(said)
	m.hello("127.0.0.1,26379,long,1,mymaster,127.0.0.1,6379,"+strings.Repeat("1", helloMax), said)
	if len(said) != 0 {
		t.Errorf("what is longer than any sentinel's words is kept")
	}
	m.hello("127.0.0.1,26379,"+fmt.Sprintf("id%d", 10*sentinelsMax-1)+",1,mymaster,127.0.0.1,6379,1", said)
	last := fmt.Sprintf("id%d", 10*sentinelsMax-1)
	m.hello("127.0.0.1,26379,"+last+",2,mymaster,127.0.0.1,6380,2", said)
	if len(m.doubted) != 1 {
		t.Error("a sentinel names another master, and nobody doubts")
	}
}
