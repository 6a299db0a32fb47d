// Package redisstore is the public part of the leases' store in Redis: the names of keys, the rules that an ACL must allow, and the
// conditions of errors (errors.Is) that the packages of leases return. The code that executes requests is internal.
package redisstore

import "github.com/leasestorm/leasestorm/internal/redisstore"

// Defaults of Options.
const (
	LeasePrefixDefault = redisstore.LeasePrefixDefault
	NodePrefixDefault  = redisstore.NodePrefixDefault
	EpochKeyDefault    = redisstore.EpochKeyDefault
	ChannelDefault     = redisstore.ChannelDefault
	FenceTTLDefault    = redisstore.FenceTTLDefault
	QuarantineDefault  = redisstore.QuarantineDefault

	// VersionMin is the oldest Redis that can carry leases.
	VersionMin = redisstore.VersionMin
)

// Conditions of errors, by what is wrong with Redis or with the request.
var (
	// ErrUnreachable: there is no connection, or no answer in time.
	ErrUnreachable = redisstore.ErrUnreachable
	// ErrNotRedis: the server that answers is not a Redis.
	ErrNotRedis = redisstore.ErrNotRedis
	// ErrAuth: Redis wants a password, or the given one is wrong.
	ErrAuth = redisstore.ErrAuth
	// ErrReadOnly: the server is a replica, which refuses writes.
	ErrReadOnly = redisstore.ErrReadOnly
	// ErrTooOld: Redis is older than VersionMin.
	ErrTooOld = redisstore.ErrTooOld
	// ErrNotReady: Redis is loading its data or has lost its master. It may work later.
	ErrNotReady = redisstore.ErrNotReady
	// ErrUnsupportedClient: the given client cannot carry leases.
	ErrUnsupportedClient = redisstore.ErrUnsupportedClient
	// ErrDenied: an ACL denies what leases need; the message ends with the line that grants it.
	ErrDenied = redisstore.ErrDenied
	// ErrRefused: Redis answered with an error, which the message contains.
	ErrRefused = redisstore.ErrRefused
	// ErrInUse: a first deployment was declared while a lease or a heartbeat lives, or another quarantine is agreed on.
	ErrInUse = redisstore.ErrInUse
	// ErrQuarantineTooShort: the group's quarantine is shorter than this instance's TTL or quarantine.
	ErrQuarantineTooShort = redisstore.ErrQuarantineTooShort
	// ErrOutlives: a lease or a heartbeat lives longer than the new quarantine.
	ErrOutlives = redisstore.ErrOutlives
	// ErrReplicas: more replicas acknowledge than Replicas, so that two masters could both have a majority.
	ErrReplicas = redisstore.ErrReplicas
)

// Options say where leases are kept. Options.Rules returns what an ACL must allow their user. The zero value of a field is its default.
type Options = redisstore.Options

// Use is the intended use of leases, for Options.Rules.
type Use = redisstore.Use

// Rules are what an ACL must allow a user; Rules.String returns them for ACL SETUSER.
type Rules = redisstore.Rules
