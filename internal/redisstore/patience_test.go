package redisstore

import (
	"testing"
	"time"
)

// An idle server ends a WAIT up to a tenth of a second late, and the answer must still arrive in time.
func TestPatience(t *testing.T) {
	for left, want := range map[time.Duration]time.Duration{
		5 * time.Second:        4500 * time.Millisecond,
		500 * time.Millisecond: 380 * time.Millisecond,
		100 * time.Millisecond: 50 * time.Millisecond,
		0:                      time.Millisecond,
	} {
		if got := Patience(left); got != want {
			t.Errorf("%v left: WAIT %v, want %v", left, got, want)
		}
	}
}
