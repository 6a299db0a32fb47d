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

// Server holds a server's keys and executes the store's scripts on them, atomically, on the server's own clock.
type Server struct {
	Data
	refusals
	Config Config
	wire   redisstore.Wire // of Config

	RunID       string
	runs        int
	SyncFull    int // full synchronizations of replicas with this run
	SyncPartial int // partial synchronizations
	Connected   int
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
	r.numbers.servers = append(r.numbers.servers, &r.Data)
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

func (r *Server) Forget() {
	r.loaded = 0
	clear(r.scripts)
}

// Knows reports whether the script of an op is loaded, and load loads it.
func (r *Server) Knows(k core.OpKind) bool { return k == core.OpAsk || r.loaded>>k&1 != 0 }

// TakeFed returns the streams that got an entry since the last call.
func (r *Server) TakeFed() []string {
	fed := r.fed
	r.fed = nil
	return fed
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

const TextLoading = "LOADING Redis is loading the dataset in memory"

type verb struct {
	args   int // minimum number
	writes bool
	memory bool   // refused when memory is full
	makes  string // first argument that needs memory too
	again  bool   // replicas execute it too, unless the master refused it
	run    func(r *Server, t int64, args []string) Reply
}

func (v verb) needsMemory(args []string) bool {
	return v.memory || v.makes != "" && strings.EqualFold(args[0], v.makes)
}

func (r *Server) Load(k core.OpKind) { r.loaded |= 1 << k }
