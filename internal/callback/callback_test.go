package callback

import (
	"runtime"
	"slices"
	"testing"
)

// Whatever becomes of a call, the next are made, in order, and whoever tells goes on.
func TestAllAreTold(t *testing.T) {
	var heard []int
	var with []any
	Tell(func(n int) {
		heard = append(heard, n)
		switch n {
		case 1, 5:
			runtime.Goexit()
		case 3:
			panic("three")
		}
	}, func(r any) { with = append(with, r) }, 0, 1, 2, 3, 4, 5)
	if !slices.Equal(heard, []int{0, 1, 2, 3, 4, 5}) || !slices.Equal(with, []any{Exited, "three", Exited}) {
		t.Errorf("heard %v; panicked with %v", heard, with)
	}
	Tell(nil, nil, 1)
}
