package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

func newCheck() *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "check DIR",
		Short: "Judge a saved run again",
		Long: `check reads the history, plan and logs that a run saved and judges them again: the verdict of the run's own end,
from its files alone. Exit codes are those of a run.`,
		Example: "  simulate check reports/storm-42",
		Args:    oneDir,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.check1(cmd, args[0])
		},
	}
	cmd.Flags().BoolVar(&f.json, "json", false, "write report.json and nothing else to standard output")
	return cmd
}

func (f *flags) check1(cmd *cobra.Command, dir string) error {
	_, _ = cmd, dir
	return errors.New("not built")
}

// oneDir wants exactly the folder of a saved run.
func oneDir(cmd *cobra.Command, args []string) error {
	if len(args) == 1 && args[0] != "" {
		return nil
	}
	return fmt.Errorf("%s needs the folder of one saved run, such as reports/storm-42", cmd.CommandPath())
}
