package main

import (
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/leasestorm/leasestorm/internal/plain"
	"github.com/leasestorm/leasestorm/internal/redisurl"
	"github.com/leasestorm/leasestorm/internal/writefile"
	"github.com/leasestorm/leasestorm/sim/page"
	"github.com/leasestorm/leasestorm/sim/report"
)

// seeIt says how to see a run's page.
const seeIt = "  see it:          simulate open %[1]s\n"

// draw writes what shows the run beside it, and reports in a sentence what that says first, and whether it could. What cannot be written is
// a note and costs no verdict.
func (f *flags) draw(r report.Report, folder *writefile.Dir, text io.Writer) (sentence string, drawn bool) {
	note := func(err error) {
		if err != nil {
			fmt.Fprintf(text, "note: %v\n", redisurl.Line(err))
		}
	}
	sentence, err := page.SaveTold(folder, r, !f.noHTML)
	note(err)
	if f.perfetto {
		note(page.SaveTrace(folder, r))
	}
	return sentence, err == nil
}

func newOpen() *cobra.Command {
	return &cobra.Command{
		Use:   "open DIR",
		Short: "Open the page of a saved run in a browser",
		Long: `open judges a saved run again, writes its report.html anew (one that came from elsewhere is not shown), and opens it
in the browser of this machine: a copy, in a folder for temporary files that nobody else may write to, which stays until the page of a run
is opened an hour later. Where there is none, it says where the page is. Its exit code says nothing of the verdict.`,
		Example: "  simulate open reports/storm-42",
		Args:    oneDir,
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := args[0]
			folder, err := report.Open(dir)
			if err != nil {
				return err
			}
			defer folder.Close()
			guardMemory(dir, memoryFor(folder))
			r, _, damage := report.Judge(folder)
			if !report.Readable(damage) {
				return damage
			}
			text, err := page.SaveShown(folder, r)
			if err != nil {
				return err
			}
			file, err := filepath.Abs(filepath.Join(dir, page.FileName))
			if err != nil {
				return err
			}
			shown, err := ownPage(text)
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), plain.Text(file))
			if err := browse((&url.URL{Scheme: "file", Path: filepath.ToSlash(shown)}).String()); err != nil {
				fmt.Fprintf(cmd.ErrOrStderr(), "simulate: no browser could be started (%v): open it yourself\n", redisurl.Line(err))
			}
			return nil
		},
	}
}

const (
	pagePrefix = "leasestorm-page-"
	pageLife   = time.Hour
)

// removePages removes the copies of pages that were written before a time, and nothing else: what another user put there stays, and
// what a link of his leads to.
func removePages(temporary string, before time.Time) {
	in, err := writefile.OpenDir(temporary)
	if err != nil {
		return
	}
	defer in.Close()
	all, _ := os.ReadDir(temporary)
	for _, e := range all {
		if !strings.HasPrefix(e.Name(), pagePrefix) {
			continue
		}
		dir, err := in.Open(e.Name())
		if err != nil {
			continue
		}
		if at, err := dir.Changed(); err == nil && at.Before(before) {
			_ = dir.Remove(page.FileName)
			_ = in.Remove(e.Name())
		}
		_ = dir.Close()
	}
}

// ownPage writes the page once more, where nobody else can put another one in its place before the browser reads it: who may write to a
// run's folder could. It stays, because nobody knows when it was read; those that have stayed for pageLife go.
func ownPage(text []byte) (file string, err error) {
	removePages(os.TempDir(), time.Now().Add(-pageLife))
	own, err := os.MkdirTemp("", pagePrefix) // of mode 0700
	if err != nil {
		return "", fmt.Errorf("folder for the page that is opened: %w", err)
	}
	file = filepath.Join(own, page.FileName)
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return "", fmt.Errorf("the page that is opened: %w", err)
	}
	return filepath.Abs(file)
}

// browse starts the browser that LEASESTORM_BROWSER names, or the machine's own, and does not wait for it.
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
