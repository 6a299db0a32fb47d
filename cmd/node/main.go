// Command node is the reference node: it shares polling sessions through Redis with whoever else does, polls those that
// it owns, and says what it does on standard output (docs/node-protocol.md). See node --help.
package main

import (
	"os"

	"github.com/leasestorm/leasestorm/internal/node"
)

func main() { os.Exit(node.Main(os.Args[1:])) }
