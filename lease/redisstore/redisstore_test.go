package redisstore_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/leasestorm/leasestorm/lease"
	"github.com/leasestorm/leasestorm/lease/redisstore"
)

// The rules are those that an operator gives the user of a program: Rules.String has them in the form that Redis takes.
func ExampleOptions_Rules() {
	keys := redisstore.Options{LeasePrefix: "{jobs}:lease:", NodePrefix: "{jobs}:node:", EpochKey: "{jobs}:epoch", Channel: "jobs"}
	rules := keys.Rules(redisstore.Use{Registry: true})
	fmt.Println(rules.Keys, rules.Channels)
	// Output: [{jobs}:epoch {jobs}:epoch:group {jobs}:lease:* {jobs}:node:*] [jobs]
}

// A condition has one error, whichever package names it.
func TestConditionsAreThoseOfLeases(t *testing.T) {
	for of, both := range map[string][2]error{
		"refusals":    {lease.ErrRefused, redisstore.ErrRefused},
		"quarantines": {lease.ErrQuarantineTooShort, redisstore.ErrQuarantineTooShort},
	} {
		if !errors.Is(both[0], both[1]) {
			t.Errorf("%s: %v, want %v", of, both[0], both[1])
		}
	}
}
