// Command node is a member of an election that follows the Sovereign document to the letter, for the real engine:
//
//	go build -o bin/sovereign ./sim/mutant/sovereign/node
//	simulate --system election --nodes 5 --node-cmd bin/sovereign
package main

import (
	"os"
	"time"

	"github.com/leasestorm/leasestorm/sim/foreign"
	"github.com/leasestorm/leasestorm/sim/foreign/process"
	"github.com/leasestorm/leasestorm/sim/mutant/sovereign"
)

func main() {
	os.Exit(process.Main(func(m process.Member) foreign.Machine {
		return sovereign.New(sovereign.Config{
			Instance: m.Instance, LeaderKey: m.LeaderKey, HeartbeatPrefix: m.HeartbeatPrefix, TTL: m.TTL,
			Grace: 5 * time.Second, Election: m.Election, Heartbeat: m.Heartbeat, StartDelay: m.StartDelay,
		})
	}))
}
