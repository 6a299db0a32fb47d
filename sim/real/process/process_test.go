package process

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// grouped starts a shell in its own group. out has its output and that of its children.
func grouped(t *testing.T, script string, args ...string) (p *Process, out *os.File) {
	t.Helper()
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = out.Close() })
	cmd := exec.Command("sh", append([]string{"-c", script}, args...)...)
	cmd.Stdout = in
	p, err = Start(nil, cmd, "")
	_ = in.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p, out
}

// wrapped starts a shell that runs another one, and waits until that one runs. The inner shell does script on SIGTERM. said returns the
// rest of their output once both have ended.
func wrapped(t *testing.T, script string) (p *Process, said func() string) {
	t.Helper()
	p, out := grouped(t, `sh -c "$1"; exit $?`, "sh", "trap '"+script+"' TERM; echo up; while :; do sleep 0.01; done")
	if _, err := io.ReadFull(out, make([]byte, len("up\n"))); err != nil {
		t.Fatal(err)
	}
	return p, func() string {
		_ = out.SetReadDeadline(time.Now().Add(10 * time.Second))
		rest, err := io.ReadAll(out)
		if err != nil {
			t.Errorf("somebody of the group outlived it: %v", err)
		}
		return strings.TrimSpace(string(rest))
	}
}

// A shell ends on SIGTERM at once. Its node still has the whole grace, and the reported end is the node's.
func TestNodeBehindAShellStopsCleanly(t *testing.T) {
	const takes = 300 * time.Millisecond
	p, said := wrapped(t, "sleep 0.3; echo released; exit 0")
	asked := time.Now()
	if Terminate(p, nothing, nothing, 20*time.Second, nil) {
		t.Error("it was killed")
	}
	when, code := p.End()
	if got := said(); got != "released" || code != 0 || when.Sub(asked) < takes {
		t.Errorf("it said %q and ended %v later with code %d, want released, more than %v and 0", got, when.Sub(asked), code, takes)
	}
}

func TestNodeBehindAShellIsKilledAfterTheGrace(t *testing.T) {
	p, said := wrapped(t, "")
	if !Terminate(p, nothing, nothing, 200*time.Millisecond, nil) {
		t.Error("nobody killed it")
	}
	if _, code := p.End(); said() != "" || code != -1 {
		t.Errorf("it ended with code %d, want that of a signal", code)
	}
}

// The processes of a group are listed before the stop begins, so one that ends at once counts too.
func TestGroupIsKnownBeforeAStopBegins(t *testing.T) {
	p, out := grouped(t, "sleep 60 & echo $!; exec sleep 60")
	var child int
	if _, err := fmt.Fscan(out, &child); err != nil {
		t.Fatal(err)
	}
	end := func() {
		if err := syscall.Kill(child, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
		for len(processTree(p.pid, "")) > 1 {
			runtime.Gosched()
		}
	}
	if Terminate(p, end, nothing, 20*time.Second, nil) {
		t.Error("it was killed")
	}
	if _, code := p.End(); code != 0 {
		t.Errorf("it ended with code %d, want 0 of one that had others in its group", code)
	}
}

// A crash leaves no grace, even to a stopping process.
func TestCrashOfANodeBehindAShell(t *testing.T) {
	for name, before := range map[string]func(*Process){"at once": func(*Process) {}, "while it stops": func(p *Process) { p.Stop(nothing, nothing) }} {
		t.Run(name, func(t *testing.T) {
			p, said := wrapped(t, "sleep 60; echo released; exit 0")
			before(p)
			p.Kill()
			if _, code := p.End(); said() != "" || code != -1 {
				t.Errorf("it ended with code %d, want that of a signal", code)
			}
		})
	}
}

func nothing() {}

// The test binary is also a process that leaves its group.
func TestMain(m *testing.M) {
	if os.Getenv("REAL_TEST_PART") == "leaver" {
		os.Exit(leaver())
	}
	goleak.VerifyTestMain(m)
}

// leaver moves from its own group to that of its parent, and ends on SIGTERM.
func leaver() int {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM)
	group, err := syscall.Getpgid(syscall.Getppid())
	if err == nil {
		err = syscall.Setpgid(0, group)
	}
	fmt.Println("left:", err)
	<-asked
	return 0
}

// Faults and the end of a run reach a node in any group.
func TestNodeThatLeftItsGroupIsReached(t *testing.T) {
	left := func(t *testing.T) *Process {
		p, out := grouped(t, `REAL_TEST_PART=leaver exec "$0"`, os.Args[0])
		t.Cleanup(func() { _ = p.Signal(syscall.SIGKILL) })
		if line, err := bufio.NewReader(out).ReadString('\n'); line != "left: <nil>\n" {
			t.Fatal(line, err)
		}
		if err := errors.Join(p.Freeze(), p.Thaw()); err != nil {
			t.Fatal(err)
		}
		return p
	}
	t.Run("asked", func(t *testing.T) {
		p := left(t)
		if Terminate(p, nothing, nothing, 20*time.Second, nil) {
			t.Error("it was killed")
		}
		if _, code := p.End(); code != 0 {
			t.Errorf("it ended with code %d, want 0", code)
		}
	})
	t.Run("killed", func(t *testing.T) {
		p := left(t)
		p.Kill()
		if _, code := p.End(); code != -1 {
			t.Errorf("it ended with code %d, want that of a signal", code)
		}
	})
}
