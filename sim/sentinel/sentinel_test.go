package sentinel

import (
	"os"
	"strconv"
	"testing"
)

// Rounds of each kind; SENTINEL_ROUNDS says how many (make soak plays ten).
func TestRounds(t *testing.T) {
	rounds := 0
	if text := os.Getenv("SENTINEL_ROUNDS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("SENTINEL_ROUNDS is %q; it must be a number", text)
		}
		rounds = n
	}
	if rounds == 0 {
		t.Skip("for make soak: SENTINEL_ROUNDS=10 go test ./sim/sentinel -run TestRounds")
	}
	f := Start(t)
	for _, kind := range Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			for range rounds {
				r := f.Play(kind)
				t.Log(r)
				if r.Doubled > 0 {
					t.Errorf("two owners")
				}
			}
		})
	}
}
