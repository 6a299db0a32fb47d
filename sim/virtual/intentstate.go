package virtual

import (
	"context"
	"net/http"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/core/intent"
	"github.com/leasestorm/leasestorm/internal/intentbus"
	"github.com/leasestorm/leasestorm/internal/membership"
	"github.com/leasestorm/leasestorm/internal/policy"
	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/lease/intent/store"
)

// intentNode is a process of the intent system: production API, store, member and machine, and a shell like lease/intent/worker.
type intentNode struct {
	plainProgram
	iw   *intentWorld
	n    *node
	role string

	ctx    context.Context
	cancel context.CancelFunc
	store  *store.Store

	// API.
	handler   http.Handler
	listening bool
	open      map[int64]func(int, []byte) // pending requests; ranged over only in the order of their numbers
	requests  int64

	// Worker.
	bus      intentbus.Bus
	leasesOf *redisstore.Store // for passing leases on
	member   *membership.Member
	machine  *intent.Machine
	jobs     intentJobs
	inbox    []intentMessage
	busy     bool // a step of the machine is being carried out
	later    bool // pump runs again after the current step of the leases
	passed   core.Passed
	wants    policy.Waiters[string, intent.Event] // sessions that wait for a lease
	releases policy.Releases[*intentRelease]
	capacity latch // of the machine
	kicked   latch // a beat is requested
	nextBeat core.Time
	up       bool // it has joined
	beating  bool // a beat or the join is in progress

	// Stop.
	stopping bool
	silent   latch // no request is pending
	ended    latch // the machine has drained
	beaten   latch // no beat is in progress
	released latch // the leases are released
}

type (
	intentJob  = membership.Job[intentHold, *pipeline]
	intentJobs = membership.Jobs[intentHold, *pipeline]
)

type intentHold struct {
	p     *intentNode
	id    string
	fence int64
	gen   uint32
}

// intentMessage is input for the machine: f runs first, then the machine gets event.
type intentMessage struct {
	f     func()
	event intent.Event
}

type intentRelease struct {
	session string
	left    int
	over    bool
}

// tuners are the target of a storm of intents, as in the real engine. Slots serve pipelines under the fences of their slot and service. A
// slot refuses a pipeline if slot or service has seen a newer fence, and a newer pipeline ends an older one.
type tuners struct {
	*timeline
	places map[string]*tunerPlace // slots and services; never ranged over
	number int64
}

// tunerPlace is a slot or a service. It serves one pipeline at a time.
type tunerPlace struct {
	fence   int64
	current *pipeline
}

// pipeline is the work of one session on its slot, as internal/node/pipeline.go does it, with the slot's side of it.
type pipeline struct {
	p               *intentNode
	instance        string
	session         string
	service, slot   string // leases
	fence, slotFrom int64  // of the service, and of the slot

	// In the process.
	state  pipelineState
	paused bool // frozen between the check of its leases and the send
	sent   int64
	ended  bool // a lease is no longer trusted
	stop   bool // an end was requested

	// At the tuner.
	n      int64
	served bool
	gone   bool // its connection is closed
}

type pipelineState uint8

const (
	pipeSending pipelineState = iota
	pipeUp
	pipeLetting
	pipeOver
)
