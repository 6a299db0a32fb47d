package node

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestWalkThrough runs the commands of docs/intents.md in a shell and compares their output.
func TestWalkThrough(t *testing.T) {
	for _, tool := range []string{"bash", "curl", "redis-server", "redis-cli"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is needed", tool)
		}
	}
	text, err := os.ReadFile("../../docs/intents.md")
	if err != nil {
		t.Fatal(err)
	}
	steps := walkThrough(string(text))
	if len(steps) < 20 {
		t.Fatalf("only %d commands found", len(steps))
	}
	dir := t.TempDir()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	redisPort, apiPort, healthPort := freePort(t), freePort(t), freePort(t)
	script := &strings.Builder{}
	fmt.Fprintf(script, "cd %s\n", dir)
	for i, s := range steps {
		command := strings.NewReplacer("7480", redisPort, "8480", apiPort, "9480", healthPort, "./cmd/node", "-C "+root+" ./cmd/node").Replace(s.command)
		if strings.HasPrefix(command, "go build") {
			command = fmt.Sprintf("(cd %s && go build -o %s/bin/ ./cmd/node)", root, dir)
		}
		fmt.Fprintf(script, "%s\necho '%s%d'\n", command, mark, i)
	}
	script.WriteString("exit 0\n")
	shell := exec.CommandContext(t.Context(), "bash")
	shell.Stdin = strings.NewReader(script.String())
	var out bytes.Buffer
	shell.Stdout, shell.Stderr = &out, &out
	shell.WaitDelay = 5 * time.Second
	if err := shell.Run(); err != nil {
		t.Errorf("%v\n%s", err, out.String())
	}
	for i, printed := range strings.Split(out.String(), mark)[:max(0, strings.Count(out.String(), mark))] {
		if i > 0 { // drop the number of the mark before it
			_, printed, _ = strings.Cut(printed, "\n")
		}
		if !steps[i].want.MatchString(printed) {
			t.Fatalf("line %d, $ %s\nprinted:  %q\nexpected: %s", steps[i].line, steps[i].command, printed, steps[i].want)
		}
	}
	if n := strings.Count(out.String(), mark); n != len(steps) {
		t.Fatalf("%d of %d commands ran:\n%s", n, len(steps), out.String())
	}
}

// mark separates what the commands print.
const mark = "--- done with "

// step is one command and what it prints.
type step struct {
	line    int
	command string
	want    *regexp.Regexp
}

// walkThrough returns the commands of all console blocks.
func walkThrough(text string) (steps []step) {
	inside, want := false, ""
	end := func() {
		if len(steps) > 0 && steps[len(steps)-1].want == nil {
			steps[len(steps)-1].want = regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(want), "…", ".*") + "$")
		}
		want = ""
	}
	for i, l := range strings.Split(text, "\n") {
		switch {
		case l == "```console":
			inside = true
		case l == "```" && inside:
			inside = false
			end()
		case inside && strings.HasPrefix(l, "$ "):
			end()
			steps = append(steps, step{line: i + 1, command: l[2:]})
		case inside:
			want += l + "\n"
		}
	}
	return steps
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}
