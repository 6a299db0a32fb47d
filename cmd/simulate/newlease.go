package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leasestorm/leasestorm/examples/leases"
)

func newNewLease() *cobra.Command {
	return &cobra.Command{
		Use:   "new-lease " + strings.Join(leases.Languages(), "|"),
		Short: "Write an adapter for --lease-cmd to the current folder, to start from",
		Long: `Write an adapter of docs/lease-protocol.md to the current folder, and print how to storm it. It has some 30 lines. Replace the
calls of its lock by those of yours. An existing file is not overwritten.`,
		Example: `  simulate new-lease python
  simulate probe --lease-cmd 'python3 lock.py'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(leases.Languages(), args[0]) {
				return fmt.Errorf("give one of %s", strings.Join(leases.Languages(), ", "))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			a := leases.Adapter(args[0])
			f, err := os.OpenFile(a.File, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
			if errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("%s exists already: remove it, or go to another folder", a.File)
			}
			if err == nil {
				_, err = f.Write(a.Source)
				err = errors.Join(err, f.Close())
			}
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "wrote %s\n", a.File)
			lines := append(a.Build, "simulate probe --lease-cmd "+a.Command, "simulate --scenario locks --lease-cmd "+a.Command, a.Virtual)
			for _, line := range lines {
				if line != "" {
					fmt.Fprintln(cmd.OutOrStdout(), "  "+line)
				}
			}
			return nil
		},
	}
}
