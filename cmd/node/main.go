// Command node is the reference node. It shares polling sessions with other nodes through Redis, polls those that it owns, and reports
// on standard output (docs/node-protocol.md). See node --help.
package main

import (
	"os"

	"github.com/leasestorm/leasestorm/internal/node"
)

func main() { os.Exit(node.Main(os.Args[1:])) }
