package redis

import (
	"strings"

	"github.com/leasestorm/leasestorm/internal/core"
)

// If an ACL is the reason, Redis' text inside a script differs from that for a client's command.
const (
	textReadonly = "READONLY You can't write against a read only replica."
	textUnsaved  = "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. " +
		"Commands that may modify the data set are disabled, because this instance is configured to report errors during writes " +
		"if RDB snapshotting fails (stop-writes-on-bgsave-error option). Please check the Redis logs for details about the RDB error."
	textLonely        = "NOREPLICAS Not enough good replicas to write."
	textFull          = "OOM command not allowed when used memory > 'maxmemory'."
	textNoKey         = "NOPERM this user has no permissions to access one of the keys used as arguments"
	textScriptCommand = "ERR The user executing the script can't run this command or subcommand"
	textScriptKey     = "ERR The user executing the script can't access at least one of the keys mentioned in the command arguments"
)

// mayWrite checks a script's write. A refusal keeps the script's earlier effects. Memory matters only before the script's first write.
func (r *Server) mayWrite(command string, memory bool) bool {
	r.why = ""
	switch {
	case r.NoSet > 0 && command == "SET":
		r.why = textScriptCommand
	case r.Readonly > 0:
		r.why = textReadonly
	case r.Unsaved > 0:
		r.why = textUnsaved
	case r.Lonely > 0:
		r.why = textLonely
	case r.Full > 0 && memory && !r.dirty:
		r.why = textFull
	}
	r.dirty = r.dirty || r.why == ""
	return r.why == ""
}

// refused returns why Redis refuses a client's command, "" if it does not. The order of checks differs from a script's.
func (r *Server) refused(command string, v verb, args []string) string {
	switch {
	case r.NoSet > 0 && command == "SET":
		return "NOPERM this user has no permissions to run the 'set' command"
	case r.deniesOne(args):
		return textNoKey
	case !v.writes:
	case r.Full > 0 && v.needsMemory(args) && r.Readonly == 0: // a replica has no limit of its own
		return textFull
	case r.Unsaved > 0:
		return textUnsaved
	case r.Readonly > 0:
		return textReadonly
	case r.Lonely > 0:
		return textLonely
	}
	return ""
}

// deniesOne reports whether one of the words is a denied key. No other argument begins like a lease's key.
func (r *Server) deniesOne(words []string) bool {
	if r.NoLeases+r.NoFences == 0 {
		return false
	}
	for _, name := range words {
		denied := r.NoLeases
		if rest, ok := strings.CutPrefix(name, "{"); ok {
			denied, name = r.NoFences, rest
		}
		if denied > 0 && (strings.HasPrefix(name, r.Config.LeasePrefix) || strings.HasPrefix(name, electionLeader)) {
			return true
		}
	}
	return false
}

// DeniesOp is deniesOne for the keys of an op's script, which Redis checks before it runs even an unknown script.
func (r *Server) DeniesOp(op *core.Op) bool {
	if r.NoLeases+r.NoFences == 0 {
		return false
	}
	fences, leases := false, false
	switch op.Kind {
	case core.OpAcquire, core.OpRenew, core.OpReassert, core.OpRelease:
		fences, leases = len(op.Items) > 0, len(op.Items) > 0
	case core.OpObserve:
		leases = len(op.Items) > 0
	case core.OpLook:
		leases = len(r.sessionSet.IDs) > 0
	}
	return fences && r.NoFences > 0 || leases && r.NoLeases > 0
}

// refuse turns a into the refusal of op. An ACL error inside a script does not mean that nothing was executed.
func refuse(op *core.Op, a *core.Answer, why string) {
	*a = core.Answer{Seq: op.Seq, Failure: core.FailRefused, Text: why, Results: a.Results[:0]}
	if why == textScriptCommand {
		a.Failure = core.FailUnknown
	}
}
