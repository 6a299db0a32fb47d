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

// refusals are the error codes with which Redis says that it executed nothing. A script that changed something cannot
// end with one of them: each is decided before the command or at a script's first write.
var refusals = map[string]bool{
	"LOADING": true, "READONLY": true, "NOAUTH": true, "WRONGPASS": true, "OOM": true, "MASTERDOWN": true,
	"CLUSTERDOWN": true, "TRYAGAIN": true, "MOVED": true, "ASK": true, "CROSSSLOT": true, "BUSY": true, "MISCONF": true,
	"NOREPLICAS": true, "NOSCRIPT": true, "NOPROTO": true, "WRONGTYPE": true,
}

// ErrRefused says that Redis answered with an error. Its words are in the message.
var ErrRefused = errors.New("refused by Redis")

// Cause is err as a caller is to see it: what Redis answered is marked as ErrRefused, anything else, such as an error of the
// connection, is as it is.
func Cause(err error) error {
	var reply redis.Error
	if errors.As(err, &reply) && !errors.Is(err, ErrRefused) {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return err
}

// Outdated reports whether err is a refusal that cannot stand any more once Redis has executed a later write: one of all writes,
// and, if that write took memory, also of those that do. What an ACL denies to one command or key says nothing of others.
func Outdated(err error, grown bool) bool {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return false
	}
	code, rest, _ := strings.Cut(reply.Error(), " ")
	if _, inner, ok := strings.Cut(rest, ": -"); ok && code == "ERR" { // as refused
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

// ErrUnacknowledged says that fewer replicas than a majority of all nodes needs have acknowledged what Redis did, or that one attached
// itself meanwhile: it does not count. It is an ErrRefused too.
var ErrUnacknowledged = errors.New("not acknowledged by a majority of the nodes")

type unacknowledged struct{ text string }

func (e unacknowledged) Error() string {
	return ErrRefused.Error() + ": " + ErrUnacknowledged.Error() + ": " + e.text
}
func (e unacknowledged) Is(target error) bool {
	return target == ErrRefused || target == ErrUnacknowledged
}

// Unacknowledged returns ErrUnacknowledged with what the core says of it.
func Unacknowledged(text string) error { return unacknowledged{text} }

// Denies reports whether err says that an ACL does not allow something.
func Denies(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply) && denies(reply.Error())
}

// failure classifies the error of an attempt. What is not known to be refused may have been executed.
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
	// Redis 6.2 wraps what a script met: "ERR Error running script (…): @user_script:9: -READONLY You can't …".
	if strings.HasPrefix(rest, "Error running script") {
		_, inner, ok := strings.Cut(rest, ": -")
		inner, _, _ = strings.Cut(inner, " ")
		return ok && refusals[inner]
	}
	return strings.HasPrefix(rest, "max number of clients") || strings.HasPrefix(rest, "unknown command")
}
