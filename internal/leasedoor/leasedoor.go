// Package leasedoor is how lease/leasetest reaches the instances that a test makes, without a word of it in the API of lease.
package leasedoor

import "context"

// Instance is what lease lets leasetest do with one of its instances. Its functions may be called at any time by any goroutine.
type Instance struct {
	// Renew has the lease under that key of Redis renewed now, if the instance holds it, and not at the next tick.
	Renew func(key string)
	// Fence returns the fence of the term under that key which the instance believes in now, 0 if it believes in none.
	Fence func(key string) int64
	// Bootstrap declares its Redis new.
	Bootstrap func(context.Context) error
}

// Made is told each instance that is made, and by which client. leasetest sets it before a test begins; in production it is nil.
var Made func(client any, i Instance)
