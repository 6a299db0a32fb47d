// Command hunt is built once for each mutant, with the mutant in it, by sim/mutant/gate: it reads a mutant.Order from
// standard input, as JSON, and writes a mutant.Catch.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"

	"github.com/leasestorm/leasestorm/sim/mutant"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := hunt(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "hunt:", err)
		os.Exit(1)
	}
}

func hunt(ctx context.Context) error {
	var o mutant.Order
	if err := json.NewDecoder(os.Stdin).Decode(&o); err != nil {
		return err
	}
	c, err := mutant.Hunt(ctx, o)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(c)
}
