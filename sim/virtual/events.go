package virtual

import "github.com/leasestorm/leasestorm/sim/virtual/loop"

// The kinds of events.
const (
	evTick         uint8 = iota // node: the core requested this time
	evSend                      // node: msg leaves the process
	evArrive                    // msg reaches Redis
	evExec                      // Redis executes msg
	evReply                     // msg's answer reaches node
	evTimeout                   // node: msg's deadline passed without an answer
	evNotice                    // note reaches node
	evSubUp                     // node tries to subscribe
	evWant                      // node: wants session arg
	evHeld                      // node: Config.Hold of term arg is over
	evPoll                      // node: the next poll of term arg is due
	evPollArrive                // poll arg reaches the target
	evPollServed                // the target answers poll arg
	evPollEnd                   // node: the answer of poll arg arrives
	evPollTimeout               // node: poll arg times out
	evLeaseExpiry               // Redis: lease arg may have expired
	evBeatExpiry                // Redis: heartbeat arg may have expired
	evSpawn                     // node: start a process in this slot
	evTerm                      // node: stop cleanly
	evPollSend                  // node: poll arg is sent
	evKill                      // node: a clean stop timed out
	evFaultStart                // plan fault arg strikes
	evFaultEnd                  // plan fault arg heals
	evFlap                      // fault arg toggles
	evSnapshot                  // copy the data of a replica for fault arg
	evSessionsBack              // the application restores its sessions
	evOracle                    // session arg: the excuse of an overlap ends
	evPhase                     // phase arg begins
	evCall                      // call arg is due
	evProcess                   // node: call arg is due
	evCount                     // a bucket ends: record the commands sent in it
)

func named(e *loop.Event) bool { return e.Kind >= evSend && e.Kind <= evTimeout }
