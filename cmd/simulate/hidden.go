package main

import (
	"github.com/leasestorm/leasestorm/internal/node"
	"github.com/leasestorm/leasestorm/sim/leasenode"
	"github.com/leasestorm/leasestorm/sim/real"
)

// hiddenMode runs the reaper (which never returns) or a node, if the arguments select one.
func hiddenMode(args []string) (code int, ok bool) {
	real.ReaperMain()
	switch {
	case len(args) > 1 && args[1] == nodeArg:
		return node.Main(args[2:]), true
	case len(args) > 1 && args[1] == leaseArg:
		return leasenode.Main(args[2:]), true
	}
	return 0, false
}
