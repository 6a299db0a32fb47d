package redisstore_test

import (
	"fmt"
	"testing"

	"github.com/leasestorm/leasestorm/lease"
	"github.com/leasestorm/leasestorm/lease/redisstore"
)

// The rules are those that an operator gives the user of a program, in the form that Redis takes.
func ExampleOptions_Rules() {
	keys := redisstore.Options{LeasePrefix: "{jobs}:lease:", NodePrefix: "{jobs}:node:", EpochKey: "{jobs}:epoch", Channel: "jobs"}
	fmt.Println(keys.Rules(redisstore.Use{Registry: true}))
	// Output:
	// ~{jobs}:epoch ~{jobs}:epoch:group ~{jobs}:lease:* ~{jobs}:node:* &jobs +ping +info +time +eval +evalsha +get +set +del +pexpire +pttl +hset +hmget +hget +publish +subscribe +mget +scan +exists
}

// A condition has one error, whichever package names it.
func TestConditionsAreThoseOfLeases(t *testing.T) {
	if lease.ErrRefused != redisstore.ErrRefused || lease.ErrQuarantineTooShort != redisstore.ErrQuarantineTooShort { //nolint:errorlint // identity
		t.Error("lease and redisstore name one condition by two errors")
	}
}
