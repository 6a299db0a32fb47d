package main

import (
	"github.com/leasestorm/leasestorm/internal/node"
	"github.com/leasestorm/leasestorm/sim/real"
)

// nodeArg makes this program the reference node, so that one binary is enough for a storm.
const nodeArg = "__node"

// hiddenMode runs the reaper (which never returns) or a node, if the arguments select one.
func hiddenMode(args []string) (code int, ok bool) {
	real.ReaperMain()
	if len(args) < 2 || args[1] != nodeArg {
		return 0, false
	}
	return node.Main(args[2:]), true
}
