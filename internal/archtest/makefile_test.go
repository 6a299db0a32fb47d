package archtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What make is told may be the name of somebody's branch: it runs nothing of its own, from the environment as little as from the
// command line.
func TestMakeRunsNothingThatItIsTold(t *testing.T) {
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("no make in PATH")
	}
	run := func(env string, args ...string) string {
		cmd := exec.CommandContext(t.Context(), "make", append([]string{"-n"}, args...)...)
		cmd.Dir, cmd.Env = filepath.Join("..", ".."), append(os.Environ(), env)
		out, err := cmd.CombinedOutput()
		if err == nil {
			return ""
		}
		return string(out)
	}
	touched := filepath.Join(t.TempDir(), "touched")
	targets := map[string]string{
		"VERSION": "build", "TAG": "docker", "ARCH": "docker", "ONLY": "mutants", "LABELS": "chaos", "SEEDS": "explore",
	}
	for name, target := range targets {
		for _, value := range []string{"$(shell touch " + touched + ")", "${shell touch " + touched + "}", "x';touch " + touched + ";'"} {
			set := name + "=" + value
			for by, said := range map[string]string{"environment": run(set, target), "command line": run("", target, set)} {
				if !strings.Contains(said, name+" may not have") {
					t.Errorf("%s by %s: %q", set, by, said)
				}
			}
		}
	}
	if said := run("VERSION=v1 -extld=/tmp/x", "build"); !strings.Contains(said, "VERSION may have no space") {
		t.Errorf("a flag of the linker: %q", said)
	}
	if _, err := os.Stat(touched); err == nil {
		t.Error("make ran what it was told")
	}
	for _, fine := range []string{"VERSION=v1.2.3-rc.1+x", "LABELS=SC-002 && !smoke", "ONLY=^seeds|a b"} {
		if said := run(fine, "help"); said != "" {
			t.Errorf("%s is refused: %s", fine, said)
		}
	}
}
