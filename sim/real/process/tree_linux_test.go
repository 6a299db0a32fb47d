package process

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/sim/real/host"
)

// launched starts a shell command, which prints "up" once everything runs, with a mark in its environment.
func launched(t *testing.T, script string, addrs ...string) *Process {
	t.Helper()
	mark := "LEASESTORM_REDIS_URL=redis://" + t.Name()
	cmd := exec.Command("sh", "-c", script)
	cmd.Env = append(os.Environ(), mark)
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = out.Close() })
	cmd.Stdout = in
	p, err := Start(nil, cmd, mark, addrs...)
	_ = in.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	if line, err := bufio.NewReader(out).ReadString('\n'); strings.TrimSpace(line) != "up" {
		t.Fatal(line, err)
	}
	return p
}

// obeys is a shell command that ends on SIGTERM.
const obeys = `'trap "exit 0" TERM; echo up; while :; do sleep 0.01; done'`

func launchers() map[string]string {
	return map[string]string{
		"a session of its own": "setsid -w sh -c " + obeys,
		"a terminal":           `script -qefc "sh -c ` + strings.ReplaceAll(obeys, `"`, `\"`) + `" /dev/null`,
		"no environment":       `setsid -w env -i PATH="$PATH" sh -c ` + obeys + "; exit 0",
		"an orphan":            "(setsid sh -c " + obeys + " &); exec sleep 60",
	}
}

func TestEveryProcessOfALauncherIsReached(t *testing.T) {
	for name, script := range launchers() {
		t.Run(name, func(t *testing.T) {
			p := launched(t, script)
			all := processTree(p.pid, p.mark)
			if len(all) < 2 {
				t.Fatalf("processes: %v, want those that the launcher started too", all)
			}
			if err := p.Freeze(); err != nil {
				t.Fatal(err)
			}
			for _, m := range processTree(p.pid, p.mark) {
				if !m.stopped && !m.blocked {
					t.Errorf("process %d runs in a frozen program", m.pid)
				}
			}
			if err := p.Thaw(); err != nil {
				t.Error(err)
			}
			p.Kill()
			if left := processTree(0, p.mark); len(left) > 0 || p.Escaped != nil {
				t.Errorf("processes left: %v (%v)", left, p.Escaped)
			}
			for _, m := range all {
				dies(t, m.pid)
			}
		})
	}
}

// dies waits until the process is gone or a zombie. A signal takes effect when the process runs next.
func dies(t *testing.T, pid int) {
	t.Helper()
	tick := time.NewTicker(treeTick)
	defer tick.Stop()
	for end := time.Now().Add(time.Minute); ; <-tick.C {
		f := procStat(pid)
		if f == nil || f[0] == "Z" || f[0] == "X" {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("process %d survived: %s", pid, f)
		}
	}
}

// The launcher ends on SIGTERM and does not forward it.
func TestProcessInAnotherSessionStopsCleanly(t *testing.T) {
	p := launched(t, launchers()["a session of its own"])
	if Terminate(p, nothing, nothing, 20*time.Second, nil) {
		t.Error("it was killed")
	}
	if _, code := p.End(); code != 0 {
		t.Errorf("it ended with code %d, want 0", code)
	}
}

func TestReaperKillsMarkedProcesses(t *testing.T) {
	p := launched(t, launchers()["an orphan"])
	var pipe pipeOf
	r := &Reaper{pipe: &pipe}
	r.Add(mark, p.mark)
	reap(&pipe, nil)
	if left := processTree(0, p.mark); len(left) > 0 {
		t.Errorf("processes left: %v", left)
	}
}

// A daemon starts the node for its launcher and is no relative of it.
func TestConnectionOfAStrangerIsFound(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	p := launched(t, "echo up; exec sleep 60", l.Addr().String())
	if err := p.Strange(); err != nil {
		t.Errorf("nobody is connected: %v", err)
	}
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := p.Strange(); !errors.Is(err, host.ErrNoVerdict) || !strings.Contains(err.Error(), fmt.Sprintf("process %d ", syscall.Getpid())) {
		t.Errorf("this process is connected: %v", err)
	}
}

// A launcher with a SIGTERM handler might send the node a second SIGTERM, or end before the node. So only the node gets SIGTERM, and the
// launcher ends with it.
func TestStopAsksTheNodeAndNotItsLauncher(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	_, port, _ := net.SplitHostPort(l.Addr().String())
	p := launched(t, `trap "exit 7" TERM; bash -c 'exec 3<>/dev/tcp/127.0.0.1/`+port+
		`; trap "exit 0" TERM; echo up; while :; do sleep 0.01; done'; exit $?`, l.Addr().String())
	if Terminate(p, nothing, nothing, 20*time.Second, nil) {
		t.Error("it was killed")
	}
	if _, code := p.End(); code != 0 || p.Escaped != nil {
		t.Errorf("it ended with code %d (%v), want 0 of the node", code, p.Escaped)
	}
}
