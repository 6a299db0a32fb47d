package main

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/leasestorm/leasestorm/internal/plain"
	"github.com/leasestorm/leasestorm/internal/redisurl"
	"github.com/leasestorm/leasestorm/sim/page"
	"github.com/leasestorm/leasestorm/sim/report"
)

func newOpen() *cobra.Command {
	return &cobra.Command{
		Use:   "open DIR",
		Short: "Open the page of a saved run in a browser",
		Long: `Judge a saved run again, write its report.html, and open it in a browser. Without a browser, print the path of the page.
A page that came with the folder is never shown. The exit code does not depend on the verdict.`,
		Example: "  simulate open reports/storm-42",
		Args:    oneDir,
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := args[0]
			r, _, damage := report.Judge(dir)
			if !report.Readable(damage) {
				return damage
			}
			if _, err := page.Save(dir, r, true); err != nil {
				return err
			}
			file, err := filepath.Abs(filepath.Join(dir, page.FileName))
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), plain.Text(file))
			if err := browse((&url.URL{Scheme: "file", Path: filepath.ToSlash(file)}).String()); err != nil {
				fmt.Fprintf(cmd.ErrOrStderr(), "simulate: no browser could be started (%v): open it yourself\n", redisurl.Line(err))
			}
			return nil
		},
	}
}

// browse starts the browser of LEASESTORM_BROWSER, or the machine's own, and does not wait for it.
func browse(address string) error {
	command := []string{"xdg-open"}
	switch own := os.Getenv("LEASESTORM_BROWSER"); {
	case own != "":
		command = []string{own}
	case runtime.GOOS == "darwin":
		command = []string{"open"}
	case runtime.GOOS == "windows":
		command = []string{"rundll32", "url.dll,FileProtocolHandler"}
	}
	cmd := exec.Command(command[0], append(command[1:], address)...)
	if err := cmd.Start(); err != nil {
		return err
	}
	return cmd.Process.Release()
}
