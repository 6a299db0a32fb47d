package main

import (
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/internal/redisstore"
)

// A key in the name of a leasectl that never expires is no fence that could be waited out: a foreign hand wrote it.
func TestFencedOffExpires(t *testing.T) {
	for _, tt := range []struct {
		h    redisstore.Holding
		want bool
	}{
		{redisstore.Holding{Owner: marker + "host-1", Left: time.Second}, true},
		{redisstore.Holding{Owner: marker + "host-1", Left: redisstore.Forever}, false},
		{redisstore.Holding{Owner: "host-1", Left: time.Second}, false},
	} {
		if fencedOff(&tt.h) != tt.want {
			t.Errorf("%+v: %v, want %v", tt.h, !tt.want, tt.want)
		}
	}
}
