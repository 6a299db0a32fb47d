package redisstore

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/core"
)

// refusals are the error codes that prove that Redis executed nothing. Redis checks each before the command or at a script's first write.
var refusals = map[string]bool{
	"LOADING": true, "READONLY": true, "NOAUTH": true, "WRONGPASS": true, "OOM": true, "MASTERDOWN": true,
	"CLUSTERDOWN": true, "TRYAGAIN": true, "MOVED": true, "ASK": true, "CROSSSLOT": true, "BUSY": true, "MISCONF": true,
	"NOREPLICAS": true, "NOSCRIPT": true, "NOPROTO": true, "WRONGTYPE": true,
}

// ErrRefused means that Redis answered with an error, which the message contains.
var ErrRefused = errors.New("refused by Redis")

// Cause wraps an error reply of Redis in ErrRefused, and returns other errors unchanged.
func Cause(err error) error {
	var reply redis.Error
	if errors.As(err, &reply) && !errors.Is(err, ErrRefused) {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return err
}

// Outdated reports whether a later successful write disproves the refusal err. It disproves a refusal of all writes and, if the write
// took memory (grown), a refusal of writes that take memory. It says nothing about an ACL's denial of another command or key.
func Outdated(err error, grown bool) bool {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return false
	}
	code, rest, _ := strings.Cut(reply.Error(), " ")
	if _, inner, ok := strings.Cut(rest, ": -"); ok && code == "ERR" { // see refused
		code, _, _ = strings.Cut(inner, " ")
	}
	switch code {
	case "READONLY", "NOREPLICAS", "MISCONF", "LOADING", "BUSY", "MASTERDOWN", "CLUSTERDOWN":
		return true
	case "OOM":
		return grown
	}
	return false
}

// ErrUnacknowledged means that a write does not count: no majority acknowledged it, or a replica attached itself meanwhile. It wraps
// ErrRefused.
var ErrUnacknowledged = errors.New("not acknowledged by a majority of the nodes")

type unacknowledged struct{ text string }

func (e unacknowledged) Error() string {
	return ErrRefused.Error() + ": " + ErrUnacknowledged.Error() + ": " + e.text
}
func (e unacknowledged) Is(target error) bool {
	return target == ErrRefused || target == ErrUnacknowledged
}

// Unacknowledged returns an ErrUnacknowledged with the core's text.
func Unacknowledged(text string) error { return unacknowledged{text} }

// Denies reports whether err is a denial by an ACL.
func Denies(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply) && denies(reply.Error())
}

// Lacks reports whether an ACL denied the command, or Redis does not know it.
func Lacks(err error) bool { return Denies(err) || redis.HasErrorPrefix(err, "unknown command") }

// failure classifies the error of an attempt. Unless Redis certainly refused it, Redis may have executed it.
func failure(err error) (core.Failure, string) {
	var reply redis.Error
	if errors.As(err, &reply) {
		if refused(reply.Error()) {
			return core.FailRefused, reply.Error()
		}
		return core.FailUnknown, reply.Error()
	}
	var op *net.OpError
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(err, &certificate):
		return core.FailUnsent, err.Error()
	case errors.As(err, &op) && op.Op == "dial":
		return core.FailUnsent, err.Error()
	case errors.Is(err, redis.ErrPoolTimeout):
		return core.FailUnsent, "no free connection: " + err.Error()
	case errors.Is(err, redis.ErrClosed):
		return core.FailUnsent, "the store is closed"
	}
	return core.FailUnknown, err.Error()
}

func refused(text string) bool {
	code, rest, _ := strings.Cut(text, " ")
	if refusals[code] {
		return true
	}
	// An ACL may deny one command in the middle of a script.
	if code == "NOPERM" {
		return !strings.Contains(rest, "script")
	}
	if code != "ERR" {
		return false
	}
	// Redis 6.2 wraps script errors: "ERR Error running script (…): @user_script:9: -READONLY You can't …".
	if strings.HasPrefix(rest, "Error running script") {
		_, inner, ok := strings.Cut(rest, ": -")
		inner, _, _ = strings.Cut(inner, " ")
		return ok && refusals[inner]
	}
	return strings.HasPrefix(rest, "max number of clients") || strings.HasPrefix(rest, "unknown command")
}
