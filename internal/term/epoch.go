package term

import (
	"strconv"
	"strings"
)

// Epoch returns the epoch that is known, "" before the first answer.
func (k *Kernel) Epoch() string { return k.epoch.value }

// Replicated reports whether replicas must acknowledge what is written in this epoch.
func (k *Kernel) Replicated() bool { return k.epoch.acks > 0 }

// Outside reports whether the quarantine of the epoch's group is too short for this instance.
func (k *Kernel) Outside() bool { return k.epoch.outside }

// InQuarantine reports whether Redis grants nothing yet.
func (k *Kernel) InQuarantine() bool { return k.epoch.quarantine > k.now.Mono }

// Supersedes reports whether a server must be told to end its epoch, which is not believed.
func (k *Kernel) Supersedes() bool { return k.epoch.rejected != "" }

// Superseding notes that the server was told to end its epoch.
func (k *Kernel) Superseding() { k.epoch.rejected = "" }

// Disbelieved returns the epoch of the server if it is not believed, "" once the answer to a later op is believed.
func (k *Kernel) Disbelieved() string {
	if e := &k.epoch; e.disbelieved.sent > e.sent {
		return e.disbelieved.epoch
	}
	return ""
}

// tooShort reports whether this instance must not join a group that has agreed on this quarantine. An instance joins a group whose
// quarantine is longer than it needs, so that a fleet can change its TTL.
func (k *Kernel) tooShort(group int64) bool {
	return group > 0 && group < max(k.cfg.TTL, k.cfg.Quarantine)
}

// Forgot makes t a term of an earlier epoch, which must be reasserted (I6).
func (t *Term) Forgot() { t.reassert, t.op = true, 0 }

// LifeOf parses an epoch, "<run_id>:<attachments>:<acks> <end of quarantine>": the Redis process that began it, how often a replica had
// attached itself, and how many replicas must acknowledge. Without acknowledgements the form is "<run_id> <end of quarantine>".
func LifeOf(epoch string) (run, attachments string, acks int64) {
	life, _, _ := strings.Cut(epoch, " ")
	parts := strings.Split(life, ":")
	if len(parts) != 3 {
		return life, "", 0
	}
	acks, _ = strconv.ParseInt(parts[2], 10, 64)
	return parts[0], parts[1], acks
}
