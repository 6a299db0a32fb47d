package sim

import (
	"context"
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/real"
)

// Names of the engines.
const (
	EngineReal    = "real"    // processes, sockets, Redis
	EngineVirtual = "virtual" // one event loop: the same rules under virtual clocks, network and Redis
)

// Engine runs storms. It belongs to one run: Open, then Supports and Run, then Close whatever happened.
type Engine interface {
	// Name is how reports call it: EngineReal or EngineVirtual.
	Name() string
	// Open starts or checks what the run needs beside its nodes; dir is the run's folder. An error is a sentence that
	// says what is wrong and what is allowed, and leaves nothing behind.
	Open(ctx context.Context, dir string) (RedisInfo, error)
	// Supports returns nil if the opened engine can inject the kind, else the reason why not.
	Supports(fault.Kind) error
	// Run runs the storm and the calm and records them. When ctx ends it stops within 3 s, and what is recorded so far
	// stays valid: that is no error but Outcome.Interrupted.
	Run(ctx context.Context, s Storm, rec *history.Recorder) (Outcome, error)
	// Close removes everything but the run's folder.
	Close() error
}

// RedisChoice says which Redis the real engine uses. Kind is "" (redis-server or valkey-server from PATH, else a container,
// else embedded), "server", "container", "embedded", "url" with URL, or "compose" with Project: then the fleet
// of that project is stormed, and nothing is started.
type RedisChoice struct {
	Kind, URL string
	Project   string             // of a compose file, whose fleet is stormed
	Image     string             // of a container; "": RedisImage
	Pulling   func(image string) // hears that it is pulled
	Servers   int                // as Config.Servers; they are processes, so of Kind "" or "server" only
	Cluster   bool               // they are a shard of a Redis Cluster
}

// Launcher says how the real engine starts nodes.
type Launcher struct {
	Node       []string           // argument vector of the reference node, for runs whose Config names none
	Containers bool               // in containers, each slot with an address of its own, instead of processes of this machine
	Image      string             // of the nodes in containers; "": one is made of Node's program
	Pulling    func(image string) // hears that it is pulled
}

// RedisCompose is the kind of a Redis that came with its fleet, on whose way there nobody counts commands.
const RedisCompose = "compose"

// RedisImage is the image of a Redis in a container, unless another is chosen.
const RedisImage = real.RedisImage

// RedisInfo says which Redis a run used.
type RedisInfo struct {
	Kind    string // "server", "container", "embedded", "url", "compose", "model"
	Version string
	Note    string // what this kind cannot show, "" if nothing
	Nodes   string // the image whose containers nodes are, "" if they are processes
}

// Storm is what an engine runs.
type Storm struct {
	Config
	Plan     fault.Plan
	Dir      string // the run's folder, exists
	Progress func(Progress)
}

// Progress is a moment of a run, for whoever watches.
type Progress struct {
	Elapsed, Total              time.Duration
	Phase                       string // "start", "storm", "calm"
	Alive, Nodes                int
	Polls, Rejected, Violations int64  // violations: two instances at the target at once, of one session; the judge sees others too
	Challenges                  int64  // leases taken over from owners that were hit, or gave them up: what it is worth that nothing broke
	Fault                       string // active, "" if none
	Overload                    string // why the host cannot carry the storm, "" if it can
}

// Outcome is what an engine knows of a run beside its history.
type Outcome struct {
	Tap           bool   // what Redis granted is in the history
	Interrupted   bool   // the run ended before its time
	Fell          string // the first instance that its own rules took down, in virtual time, and why; "": none was
	Hung          bool   // it did not panic, but went on without an end
	RedisCommands int64
	Late          int      // faults that hit later than planned
	Notes         []string // anything a reader should know
	Unsaved       error    // why the nodes' logs are not whole, so that nothing is held against them; nil: they are

	Virtual time.Duration // virtual time that passed; 0 on the real engine
	SHA256  string        // hexadecimal, of the history's lines; "" where the engine cannot give the same ones twice
}
