package archtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// needs skips a test that has not the programs which it runs.
func needs(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("no %s in PATH", p)
		}
	}
}

// scratch is a folder with copies of files of the project, and others with what is given.
func scratch(t *testing.T, copies []string, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	write := func(name string, data []byte) {
		to := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, data, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range copies {
		data, err := os.ReadFile(filepath.Join("..", "..", name))
		if err != nil {
			t.Fatal(err)
		}
		write(name, data)
	}
	for name, text := range files {
		write(name, []byte(text))
	}
	return dir
}

// said runs a command in a folder, with more of an environment, and returns all that it says.
func said(t *testing.T, dir string, env []string, command ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

const program = "package main\n\nfunc main() {}\n"

// A go.work in a folder above, such as one that another user leaves in /tmp, puts other code under the names of modules.
func TestBuildTakesNoWorkspace(t *testing.T) {
	needs(t, "make")
	dir := scratch(t, nil, map[string]string{
		"go.work": "go 1.26\n", "here/go.mod": "module here\n\ngo 1.26\n",
		"here/cmd/node/main.go": program, "here/cmd/simulate/main.go": program, "here/cmd/leasectl/main.go": program,
	})
	if out, err := said(t, filepath.Join(dir, "here"), []string{"GOWORK="}, "go", "list", "./..."); err == nil {
		t.Fatalf("the workspace is not seen: %s", out)
	}
	makefile, err := filepath.Abs("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := said(t, filepath.Join(dir, "here"), []string{"GOWORK="}, "make", "-f", makefile, "build"); err != nil {
		t.Errorf("make build: %v\n%s", err, out)
	}
}

// Nor does a script that somebody runs without make.
func TestScriptsTakeNoWorkspace(t *testing.T) {
	scripts, err := filepath.Glob("../../scripts/*")
	if err != nil || len(scripts) == 0 {
		t.Fatal(scripts, err)
	}
	asksGo := regexp.MustCompile(`(?m)^[^#\n]*(\bgo (build|run|test|list|env)\b|bin/(govulncheck|go-licenses) )`)
	for _, script := range append(scripts, "../../.ci/run") {
		text, err := os.ReadFile(script)
		if err != nil {
			t.Fatal(err)
		}
		at, off := asksGo.FindIndex(text), strings.Index(string(text), "\nexport GOWORK=off")
		if at != nil && (off < 0 || off > at[0]) {
			t.Errorf("%s runs Go before it has GOWORK=off: %s", script, text[at[0]:at[1]])
		}
	}
}

// A run's folder that came from elsewhere may hold anything, and lies in reports: none of it is compiled.
func TestNothingInReportsIsCode(t *testing.T) {
	needs(t, "make")
	foreign := "package x\n\nimport \"testing\"\n\nfunc FuzzForeign(f *testing.F) {}\nfunc TestForeign(*testing.T) {}\n"
	dir := scratch(t, []string{"go.mod", "go.sum", "scripts/fuzz", "scripts/soak"}, map[string]string{
		"own.go": "package own\n", "reports/run/x_test.go": foreign, "bin/x/x_test.go": foreign,
	})
	env := []string{"GOWORK=off", "GOFLAGS=-mod=mod"}
	out, err := said(t, dir, env, "go", "list", "./...")
	if err != nil || strings.Contains(out, "reports") {
		t.Errorf("go list ./...: %v\n%s", err, out)
	}
	if out, err := said(t, dir, env, "scripts/fuzz"); err == nil || !strings.Contains(out, "no fuzzer matches") {
		t.Errorf("scripts/fuzz: %v\n%s", err, out)
	}
	if out, _ := said(t, dir, env, "scripts/soak", "-list"); strings.Contains(out, "Foreign") {
		t.Errorf("scripts/soak -list:\n%s", out)
	}
}

// Git refuses a folder of another owner: what was not compared has not passed.
func TestReleaseCheckNeedsGit(t *testing.T) {
	dir := scratch(t, []string{"scripts/release-check"}, nil)
	if out, err := said(t, dir, nil, "scripts/release-check"); err != nil || !strings.Contains(out, "nothing was compared") {
		t.Errorf("unpacked: %v\n%s", err, out)
	}
	if err := os.Mkdir(filepath.Join(dir, ".git"), 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := said(t, dir, []string{"GIT_CEILING_DIRECTORIES=" + filepath.Dir(dir)}, "scripts/release-check"); err == nil {
		t.Errorf("git refuses, and the check passed: %s", out)
	}
}

// A time that is no number ends a search at its start, and is nothing that a shell runs.
func TestTimesOfScriptsAreNumbers(t *testing.T) {
	needs(t, "make")
	touched := filepath.Join(t.TempDir(), "touched")
	dir := scratch(t, []string{"go.mod", "go.sum", "scripts/fuzz", "scripts/explore"}, map[string]string{
		"cmd/own.go": "package own\n", "internal/own.go": "package own\n", "lease/own.go": "package own\n", "sim/own.go": "package own\n",
		"own/own_test.go": "package own\n\nimport \"testing\"\n\nfunc FuzzOwn(f *testing.F) { f.Fuzz(func(*testing.T, []byte) {}) }\n",
	})
	bad := "x[$(touch " + touched + ")]"
	if out, err := said(t, dir, []string{"MINUTES=" + bad}, "scripts/explore", "1-2"); err == nil || !strings.Contains(out, "give a whole number") {
		t.Errorf("MINUTES: %v\n%s", err, out)
	}
	if out, err := said(t, dir, []string{"GOWORK=off", "FUZZTIME=" + bad}, "scripts/fuzz"); err == nil || !strings.Contains(out, "fuzztime") {
		t.Errorf("FUZZTIME: %v\n%s", err, out)
	}
	if _, err := os.Stat(touched); err == nil {
		t.Error("a script ran what it was told")
	}
}
