package queue

import (
	"slices"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A stuck reader delays nobody, gets its items in order, and learns how many it missed. The item in progress counts.
func TestStuckReader(t *testing.T) {
	for most, kept := range map[int]int{1: 2, 100: 100} {
		synctest.Test(t, func(t *testing.T) {
			stuck := make(chan struct{})
			var got []int
			missed := int64(0)
			q := New(most, func(i int, dropped int64) {
				<-stuck
				got = append(got, i)
				missed += dropped
			})
			q.Put(0)
			synctest.Wait() // the reader is handling it
			const more = 10
			for i := range kept - 1 + more {
				q.Put(i + 1)
			}
			idle := q.Idle()
			synctest.Wait()
			select {
			case <-idle:
				t.Error("idle, and the reader has not read")
			default:
			}
			close(stuck)
			<-idle
			if len(got) != kept || !slices.IsSorted(got) || missed != more {
				t.Errorf("%d read, missed %d; want %d in order, and %d", len(got), missed, kept, more)
			}
			q.Put(1 << 20) // the goroutine has ended: another begins
			<-q.Idle()
			if last := got[len(got)-1]; last != 1<<20 {
				t.Errorf("last read %d", last)
			}
		})
	}
}

// A reader that catches up misses nothing that comes later, because only unhandled items count.
func TestReaderThatCatchesUp(t *testing.T) {
	const most = 100
	got, missed := 0, int64(0)
	var q *Queue[int]
	q = New(most, func(i int, dropped int64) {
		got++
		missed += dropped
		if i >= most/2 && i < most { // half of the first are behind it
			q.Put(most + i)
		}
	})
	q.Put(0)
	for i := range most - 1 {
		q.Put(i + 1)
	}
	<-q.Idle()
	if got != most+most/2 || missed != 0 {
		t.Errorf("%d read and %d missed, want %d and none", got, missed, most+most/2)
	}
}

// Close keeps the items so far and accepts no more.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := make(chan struct{})
		n := 0
		q := New(10, func(int, int64) { <-begin; n++ })
		q.Put(1)
		q.Put(2)
		q.Close()
		q.Put(3)
		close(begin)
		<-q.Idle()
		<-q.Idle()
		if n != 2 {
			t.Errorf("%d handled, want 2", n)
		}
	})
}
