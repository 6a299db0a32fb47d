package examples

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// action.yml uses declared inputs and existing programs.
func TestActionIsWhole(t *testing.T) {
	text, err := os.ReadFile("../action.yml")
	if err != nil {
		t.Fatal(err)
	}
	var action struct {
		Inputs map[string]struct{ Description string }
		Runs   struct{ Steps []map[string]any }
	}
	if err := yaml.Unmarshal(text, &action); err != nil || len(action.Runs.Steps) == 0 {
		t.Fatalf("%d steps, %v", len(action.Runs.Steps), err)
	}
	used := map[string]bool{}
	for _, m := range regexp.MustCompile(`inputs\.([a-z-]+)`).FindAllStringSubmatch(string(text), -1) {
		used[m[1]] = true
		if action.Inputs[m[1]].Description == "" {
			t.Errorf("input %s has no description", m[1])
		}
	}
	for name := range action.Inputs {
		if !used[name] {
			t.Errorf("input %s is used nowhere", name)
		}
	}
	for _, m := range regexp.MustCompile(`scripts/[a-z-]+`).FindAllString(string(text), -1) {
		if info, err := os.Stat("../" + m); err != nil || info.Mode()&0o111 == 0 {
			t.Errorf("%s cannot be executed: %v", m, err)
		}
	}
}

// A job's exit code is that of its worst storm, according to FAIL_ON, and its summary has all storms.
func TestStormJob(t *testing.T) {
	// Each storm ends with the exit code that is its seed.
	const simulate = `#!/bin/sh
while [ $# -gt 0 ]; do case $1 in --seed) seed=$2;; --report) report=$2;; esac; shift; done
mkdir -p "$report/storm-$seed" && echo "## storm $seed" >"$report/storm-$seed/summary.md"
exit "$seed"
`
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "simulate"), []byte(simulate), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		seeds, failOn string
		code          int
		verdict       string
	}{
		{"0", "", 0, "pass"},
		{"0-2", "", 1, "fail"},
		{"0-2", "never", 0, "fail"},
		{"2", "", 2, "unknown"},
		{"2", "fail", 0, "unknown"},
		{"1-3", "never", 3, "none"},
		{"1", "sometimes", 3, ""},
		{"1,2", "", 3, ""},
	} {
		dir := t.TempDir()
		output, summary := filepath.Join(dir, "output"), filepath.Join(dir, "summary")
		cmd := exec.Command("../scripts/storm-job")
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "REPORT="+dir, "SEEDS="+c.seeds, "FAIL_ON="+c.failOn,
			"GITHUB_OUTPUT="+output, "GITHUB_STEP_SUMMARY="+summary)
		out, _ := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != c.code {
			t.Errorf("seeds %s, fail-on %q: exit code %d, want %d\n%s", c.seeds, c.failOn, cmd.ProcessState.ExitCode(), c.code, out)
		}
		said, _ := os.ReadFile(output)
		if got := strings.TrimPrefix(strings.TrimSpace(string(said)), "verdict="); got != c.verdict {
			t.Errorf("seeds %s, fail-on %q: verdict %q, want %q", c.seeds, c.failOn, got, c.verdict)
		}
		if shown, _ := os.ReadFile(summary); c.seeds == "0-2" && strings.Count(string(shown), "## storm") != 3 {
			t.Errorf("seeds %s: the summary is %q", c.seeds, shown)
		}
	}
}

// A program whose checksum differs from the release's is not unpacked.
func TestDownloadComparesChecksums(t *testing.T) {
	releases := t.TempDir()
	archive := fmt.Sprintf("simulate_0.1.0_%s_%s.tar.gz", runtime.GOOS, runtime.GOARCH)
	var packed bytes.Buffer
	zipped := gzip.NewWriter(&packed)
	files := tar.NewWriter(zipped)
	err := files.WriteHeader(&tar.Header{Name: "simulate", Mode: 0o755, Size: 2})
	_, err2 := files.Write([]byte("ok"))
	if err := errors.Join(err, err2, files.Close(), zipped.Close(), os.Mkdir(filepath.Join(releases, "v0.1.0"), 0o755)); err != nil {
		t.Fatal(err)
	}
	for _, right := range []bool{true, false} {
		sum := sha256.Sum256(packed.Bytes())
		if !right {
			sum[0]++
		}
		sums := fmt.Sprintf("%x  other.tar.gz\n%x  %s\n", sha256.Sum256(nil), sum, archive)
		err := errors.Join(os.WriteFile(filepath.Join(releases, "v0.1.0", archive), packed.Bytes(), 0o600),
			os.WriteFile(filepath.Join(releases, "v0.1.0", "checksums.txt"), []byte(sums), 0o600))
		if err != nil {
			t.Fatal(err)
		}
		folder := t.TempDir()
		cmd := exec.Command("../scripts/download", "v0.1.0", folder)
		cmd.Env = append(os.Environ(), "RELEASES=file://"+releases)
		out, err := cmd.CombinedOutput()
		text, _ := os.ReadFile(filepath.Join(folder, "simulate"))
		if (err == nil) != right || (string(text) == "ok") != right {
			t.Errorf("right checksum: %v; %v, simulate holds %q\n%s", right, err, text, out)
		}
	}
}
