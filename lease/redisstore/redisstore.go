// Package redisstore is what a program that uses leases may ask of how they are kept in Redis: the names of keys, the rules that an
// ACL must allow, and the conditions of errors that the packages of leases return (errors.Is). What carries leases out is internal.
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

// Conditions of errors, by what is wrong with Redis or with what it was asked for.
var (
	// ErrUnreachable says that there is no connection, or no answer in time.
	ErrUnreachable = redisstore.ErrUnreachable
	// ErrNotRedis says that something answers that is no Redis.
	ErrNotRedis = redisstore.ErrNotRedis
	// ErrAuth says that a password is wanted, or the one given is wrong.
	ErrAuth = redisstore.ErrAuth
	// ErrReadOnly says that this is a replica, which refuses writes.
	ErrReadOnly = redisstore.ErrReadOnly
	// ErrTooOld says that Redis is older than VersionMin.
	ErrTooOld = redisstore.ErrTooOld
	// ErrNotReady says that Redis is loading its data or has lost its master; it may work later.
	ErrNotReady = redisstore.ErrNotReady
	// ErrUnsupportedClient says that the client that was given cannot carry leases.
	ErrUnsupportedClient = redisstore.ErrUnsupportedClient
	// ErrDenied says that an ACL takes something away without which there are no leases; the message ends with the line that
	// grants it.
	ErrDenied = redisstore.ErrDenied
	// ErrRefused says that Redis answered with an error, which stands in the message.
	ErrRefused = redisstore.ErrRefused
	// ErrInUse says that a first deployment was declared where a lease or a heartbeat lives, or another quarantine is agreed on.
	ErrInUse = redisstore.ErrInUse
	// ErrQuarantineTooShort says that the group's quarantine is shorter than this instance's TTL or quarantine.
	ErrQuarantineTooShort = redisstore.ErrQuarantineTooShort
	// ErrOutlives says that a lease or a heartbeat lives longer than the new quarantine.
	ErrOutlives = redisstore.ErrOutlives
	// ErrReplicas says that more replicas acknowledge than Replicas, so that two masters could both have a majority.
	ErrReplicas = redisstore.ErrReplicas
)

// Options say where leases are kept. Options.Rules returns what an ACL must allow whoever uses them. The zero value is the default of
// each field.
type Options = redisstore.Options

// Use is what somebody will do with leases, for Options.Rules.
type Use = redisstore.Use

// Rules are what an ACL must allow a user; Rules.String returns them as ACL SETUSER takes them.
type Rules = redisstore.Rules
