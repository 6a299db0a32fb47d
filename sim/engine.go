package sim

import (
	"context"
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/real"
)

// Engine runs one storm: call Open, then Supports and Run, and always Close.
type Engine interface {
	// Name returns the name in reports: EngineReal or EngineVirtual.
	Name() string
	// Open starts or checks everything that the run needs besides its nodes. dir is the run's folder. On an error, which says what is
	// allowed, Open leaves nothing behind.
	Open(ctx context.Context, dir string) (real.Info, error)
	// Supports returns nil if the opened engine can inject the kind, otherwise the reason.
	Supports(fault.Kind) error
	// Run records the storm and the calm. When ctx ends, Run stops within 3 s with Outcome.Interrupted; recorded events stay valid.
	Run(ctx context.Context, s Storm, rec *history.Recorder) (Outcome, error)
	// Close removes everything but the run's folder.
	Close() error
}

// Launcher determines how the real engine starts nodes.
type Launcher struct {
	Node       []string           // command of the reference node, for a Config without NodeCmd
	Lease      []string           // command of the node of a NodeCmd by LeaseNode
	Stores     []real.Store       // other services that each node reaches through a proxy
	Containers bool               // nodes run in containers with their own addresses, not as local processes
	Image      string             // image of the containers; "": one is built from Node's program
	Pulling    func(image string) // called before a pull of the image
}

// RedisCompose is the kind of a running fleet's Redis, whose commands are not counted.
const RedisCompose = "compose"

// Storm is the input of an engine.
type Storm struct {
	Config
	Plan     fault.Plan
	Dir      string // the run's folder, which exists
	Progress func(Progress)
}

// Progress is the state of a run at one moment.
type Progress struct {
	real.Progress
	Challenges int64 // leases taken over from faulted or yielding owners; without any, a pass proves little
}

// Outcome is an engine's result besides the history.
type Outcome struct {
	real.Outcome
	Fell string // first instance that panicked or hung, and why (virtual time); "": none
	Hung bool   // that instance looped instead of panicking

	Virtual time.Duration // elapsed virtual time; 0 on the real engine
	SHA256  string        // hash of the history's lines, hexadecimal; "" if the engine is not deterministic
}
