// Package redis models a Redis server in virtual time: its keys, commands and the store's scripts, on its own clock. It knows neither the
// network nor who calls it.
package redis

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/redisstore"
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

// Server holds a server's keys and executes the store's scripts on them, atomically, on the server's own clock.
type Server struct {
	Data
	refusals
	connections
	Config Config
	wire   redisstore.Wire // of Config

	RunID       string
	runs        int
	SyncFull    int // full synchronizations of replicas with this run
	SyncPartial int // partial synchronizations
	Connected   int
	Loading     bool // the reply to most commands of connections is TextLoading
	lived       string

	use   use
	why   string   // why the current script was refused
	dirty bool     // the current script has written
	fed   []string // streams that got an entry in the current command

	loaded      uint16            // loaded scripts, a bit for each kind of op
	scripts     map[string]string // loaded scripts without a twin, by SHA-1; never ranged over
	interpreter *interpreter      // nil: not used yet
}

// New returns a server that has just started. It shares the numbers of keys with like, a server without keys, unless that is nil.
func New(cfg Config, like *Server) *Server {
	cfg.LeasePrefix = cmp.Or(cfg.LeasePrefix, redisstore.DefaultLeasePrefix)
	cfg.NodePrefix = cmp.Or(cfg.NodePrefix, redisstore.DefaultNodePrefix)
	cfg.EpochKey = cmp.Or(cfg.EpochKey, redisstore.DefaultEpochKey)
	cfg.Channel = cmp.Or(cfg.Channel, redisstore.DefaultChannel)
	cfg.Lua = cfg.Lua || cfg.Local // the twins do not know when a new Redis needs no quarantine
	if cfg.Named == nil {
		cfg.Named = func(string) {}
	}
	if cfg.Shout == nil {
		cfg.Shout = func(string) {}
	}
	wire, err := redisstore.NewWire(cfg.Options)
	if err != nil {
		panic(err) // virtual.Config.Validate refuses such options
	}
	r := &Server{Config: cfg, wire: wire, runs: cfg.Runs, scripts: map[string]string{}}
	r.cfg, r.sessionSet = &r.Config, core.NewSessions(nil)
	if like != nil {
		r.numbers = like.numbers
	} else {
		r.numbers = &numbers{leases: map[string]int32{}, beats: map[string]int32{}}
	}
	r.numbers.servers = append(r.numbers.servers, &r.database)
	r.restart()
	if cfg.Loaded {
		r.loaded = ^uint16(0)
	}
	return r
}

// Start begins a run at true time t, with the present data.
func (r *Server) Start(t int64) {
	r.Forget()
	r.restart()
	r.use.since = r.Clock.WallAt(t)
}

func (r *Server) restart() {
	r.runs++
	r.use = use{}
	r.RunID, r.SyncFull, r.SyncPartial = "run"+r.Config.Label+strconv.Itoa(r.runs), 0, 0
	r.Relive()
	r.version++
}

// Life is life.lua. It returns the prefix of an epoch.
func (r *Server) Life() string {
	if r.Config.Replicas == 0 {
		return r.RunID
	}
	return r.lived
}

// Relive starts a new life, which lasts until the run ends or another replica attaches.
func (r *Server) Relive() {
	if r.Config.Replicas > 0 {
		r.lived = r.RunID + ":" + strconv.Itoa(r.SyncFull+r.SyncPartial) + ":" + strconv.Itoa((r.Config.Replicas+1)/2)
	}
}

// Forget drops all scripts, as SCRIPT FLUSH does.
func (r *Server) Forget() {
	r.loaded = 0
	clear(r.scripts)
}

// Knows reports whether the script of an op is loaded.
func (r *Server) Knows(k core.OpKind) bool { return k == core.OpAsk || r.loaded>>k&1 != 0 }

// TakeFed returns the streams that got an entry since the last call.
func (r *Server) TakeFed() []string {
	fed := r.fed
	r.fed = nil
	return fed
}

// connections are those of a server.
type connections struct {
	fronts []*Front // in the order in which they were opened
	opened int64    // so far
	caller *Front   // whose command is being executed; nil: another client's
}

// refusals counts the faults that make Redis refuse commands. Faults may overlap.
type refusals struct {
	Readonly int // Redis follows another server
	Unsaved  int // Redis cannot save its data
	Lonely   int // fewer replicas are attached than Redis requires
	Full     int // Redis is out of memory

	// An ACL denies the command SET, the keys of leases or those of fences.
	NoSet, NoLeases, NoFences int
}

// Refuses reports whether Redis refuses something.
func (r *refusals) Refuses() bool { return *r != refusals{} }

// TextLoading is the error of a server that reads its data.
const TextLoading = "LOADING Redis is loading the dataset in memory"

type verb struct {
	args   int // minimum number
	most   int // maximum number; 0: none
	writes bool
	memory bool                         // refused when memory is full
	makes  string                       // first argument that needs memory too
	outer  bool                         // no script may call it
	again  bool                         // replicas execute it too, unless the master refused it
	keys   func(args []string) []string // that it reads; nil: the first argument
	run    func(r *Server, t int64, args []string) Reply
}

func (v verb) needsMemory(args []string) bool {
	return v.memory || v.makes != "" && strings.EqualFold(args[0], v.makes)
}

// Load loads the script of an op.
func (r *Server) Load(k core.OpKind) { r.loaded |= 1 << k }

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
