// Package poll polls the sessions that this instance owns. A SessionManager
// finds the sessions in Redis, shares them with the other instances through
// lease.Manager, and runs one publisher for each owned session. A publisher
// polls at once, then every interval, and only while the lease is held.
//
// # Sessions
//
// A session is a key of Redis: Config.SessionPrefix and the session's ID
// ("session:0190a8c2-8f5e-4c2a-9d7e-3b1f6a2c4d5e"). The key holds a string, the
// JSON of an object. The package reads two members of this object:
//
//	{"id": "0190a8c2-8f5e-4c2a-9d7e-3b1f6a2c4d5e", "isPaused": false, …}
//
// id is the ID in the key: a UUID in lower case, or with Config.NamedSessions a
// name of up to 128 bytes of printable ASCII without space, braces, colon and
// slash. isPaused excludes the session from polling; the default is false. All
// other members are the application's.
//
// A session is malformed if isPaused is missing and a similar member, such as
// is_paused or paused, is present. It is also malformed if its key holds no
// string, or a string of more than MaxSession bytes. The package does not read
// such a string in full, so that a large session cannot delay the others. A
// malformed session is skipped, logged when it is first found malformed, and
// counted and named in Health.
//
// An application that writes its sessions in another form sets Config.Decode.
// An application that keeps its sessions elsewhere sets Config.Sessions; the
// package then reads no sessions from Redis.
//
// # What is not promised
//
// Nothing can force a poll function to stop when its context ends. Only the
// target can refuse a late request, by Session.Fence; that includes a request
// of a process that froze between the check and the send. Polls that were
// missed while the lease was uncertain are not made up for one by one. An
// instance may poll a paused or removed session until its next discovery.
// Failed polls are not retried.
//
// # What ends a poll
//
// The context of a poll ends at its timeout, when a renewal fails, when the
// trust window ends or the lease is lost (G4), and at the end of a drain. After
// a failed renewal, no poll begins before a renewal has succeeded.
//
// After its context has ended, a poll function works without the lease: it must
// return. If it does not return within Config.Stuck, the instance gives up the
// lease, which then expires, and another instance polls the session. Send
// Session.Fence to the target, so that it can refuse the old poll.
//
// Within an instance, only one goroutine at a time polls a session, even across
// terms. No goroutine exists between polls.
package poll

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/leasestorm/leasestorm/lease"
)

// Defaults of Config.
const (
	DefaultInterval      = 5 * time.Second
	DefaultSessionPrefix = "session:"
)

// MaxSession bounds the value of a session's key, in bytes.
const MaxSession = 64 << 10

// ErrFenced is the error that a poll function returns, wrapped or not, when the
// target refused the fence as too old. The target accepts nothing under such a
// term, so the instance releases the lease; the next owner, perhaps this
// instance, has a higher fence.
//
// An old term can go on if three things happen: an instance acquires the lease
// of an owner that does not notice its loss, Redis then loses its data, and the
// old owner reasserts its term.
var ErrFenced = errors.New("the target has seen a higher fence")

// Session is the session that a poll function polls, with the fence under which
// it does. It does not include the JSON in the session's key: a copy from the
// last discovery could be an interval old, and every instance would need memory
// for all sessions. A poll function that needs the JSON reads the key.
type Session struct {
	ID    string
	Fence int64     // to send to the target, which refuses older ones (G2)
	Began time.Time // just before the lease was last checked
}

// Config configures how a SessionManager polls its sessions.
type Config struct {
	// Sessions returns the IDs of the sessions to poll, as
	// lease.ManagerConfig.Sessions does. nil: they are read from Redis.
	Sessions func(ctx context.Context) ([]string, error)
	// NamedSessions is lease.ManagerConfig.NamedSessions: session IDs may be
	// names.
	NamedSessions bool
	// Poll polls one session once. It must return soon after ctx has ended. A
	// panic, or an error other than ErrFenced, ends only this poll.
	Poll func(ctx context.Context, s Session) error
	// Interval is the time between the planned starts of two polls; 0: 5 s.
	// After a longer poll, the next begins at once.
	Interval time.Duration
	// Timeout bounds a poll; 0: TTL/3, regardless of Interval, because a
	// target's speed does not depend on how often it is polled. At the default
	// renewal interval a third of the TTL always fits into the trust window.
	// Unless LongPolls is set, Timeout is at most nine tenths of the TTL, and a
	// poll begins only if it fits into the rest of the window. The log warns of
	// a session if Timeout cuts off several of its polls in a row.
	Timeout time.Duration
	// LongPolls allows polls that outlast the TTL. Such a poll may run while
	// renewals succeed, for at most Timeout, which must be set. If its process
	// freezes, only the fence protects the target.
	LongPolls bool
	// Stuck is how long a poll may go on after its context has ended. After
	// that, the instance gives up the lease. 0: TTL/3.
	Stuck time.Duration
	// DrainTimeout is how long Stop lets running polls go on before it ends
	// their contexts; 0: Timeout.
	DrainTimeout time.Duration
	// Notify is called with every event of a lease, as lease.Config.Notify is;
	// nil: no call. It must return at once and not use the leases.
	Notify func(lease.Event)
	// SessionPrefix is the prefix of the sessions' keys; "": "session:". The
	// rest of a key is the session's ID.
	SessionPrefix string
	// Decode reads the value of the session with that ID. It returns whether
	// the session is paused, or an error that says why the session is
	// malformed. A discovery calls Decode for values that have changed, one
	// call at a time. nil: DecodeSession.
	Decode func(id string, value []byte) (paused bool, err error)

	_ struct{}
}

func (c Config) withDefaults(l lease.Config) (Config, error) {
	ttl := l.TTL
	if ttl <= 0 { // lease.NewManager refuses a negative one
		ttl = lease.DefaultTTL
	}
	if c.LongPolls && c.Timeout == 0 {
		return c, configError("LongPolls needs a Timeout; it must be the longest that a poll may take")
	}
	c.Interval = cmp.Or(c.Interval, DefaultInterval)
	c.Timeout = cmp.Or(c.Timeout, ttl/3)
	c.Stuck = cmp.Or(c.Stuck, ttl/3)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, c.Timeout)
	inRedis := c.SessionPrefix != "" || c.Decode != nil
	c.SessionPrefix = cmp.Or(c.SessionPrefix, DefaultSessionPrefix)
	if c.Decode == nil {
		c.Decode = DecodeSession
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"Interval", c.Interval}, {"Timeout", c.Timeout}, {"Stuck", c.Stuck}, {"DrainTimeout", c.DrainTimeout}} {
		if d.value < time.Millisecond {
			return c, configError("%s is %v; it must be at least 1ms (0 gives the default)", d.name, d.value)
		}
	}
	switch {
	case c.Poll == nil:
		return c, configError("Poll is nil; it must be the function that polls a session")
	case l.Notify != nil:
		return c, configError("Notify of the lease configuration is set by New; leave it nil and use that of poll.Config")
	case c.Sessions != nil && inRedis:
		return c, configError("Sessions replaces the sessions in Redis, so SessionPrefix and Decode have no effect; leave either " +
			"Sessions or these out")
	case !c.LongPolls && c.Timeout > ttl*9/10:
		return c, configError("Timeout %v does not fit into the trust window of TTL %v; shorten it to at most %v, or set "+
			"LongPolls", c.Timeout, ttl, ttl*9/10)
	}
	return c, nil
}

func configError(format string, args ...any) error {
	return fmt.Errorf("%w: poll: %s", lease.ErrInvalidConfig, fmt.Sprintf(format, args...))
}
