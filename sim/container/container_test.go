package container_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/leasestorm/leasestorm/internal/containertest"
	"github.com/leasestorm/leasestorm/sim/container"
)

// The test binary plays both parts: the tests, and the program in the containers that they start.
func TestMain(m *testing.M) {
	switch os.Getenv("CONTAINER_TEST_PART") {
	case "echo":
		echo()
	case "call":
		call(os.Getenv("CONTAINER_TEST_PEER"))
	case "hog":
		hog()
	case "brief":
		brief()
	case "ends":
		os.Exit(5)
	default:
		goleak.VerifyTestMain(m)
	}
}

// echo says what it was given and which signals it gets, and answers on port 7 what it hears there.
func echo() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGUSR1)
	fmt.Printf("pid %d, secret %q\n", os.Getpid(), os.Getenv("CONTAINER_TEST_SECRET"))
	l, err := net.Listen("tcp", ":7")
	if err != nil {
		panic(err)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c) }()
		}
	}()
	for s := range signals {
		fmt.Println("got", s)
		if s == syscall.SIGTERM {
			os.Exit(7)
		}
	}
}

// call talks to a peer without end, on one connection as long as that is answered, and says at each change how it goes.
func call(peer string) {
	const patience = 200 * time.Millisecond
	last := ""
	say := func(what string) {
		if what != last {
			fmt.Println(what)
		}
		last = what
	}
	for {
		c, err := net.DialTimeout("tcp", peer, patience)
		if err != nil {
			say("dial: " + errors.Unwrap(err).Error())
		}
		for err == nil {
			_ = c.SetDeadline(time.Now().Add(patience))
			if _, err = c.Write([]byte("x")); err == nil {
				_, err = c.Read(make([]byte, 1))
			}
			if err != nil {
				say("talk: " + errors.Unwrap(err).Error())
				_ = c.Close()
			} else {
				say("answered")
			}
			<-time.After(time.Millisecond)
		}
	}
}

// hog takes memory without end.
func hog() {
	var all [][]byte
	for {
		all = append(all, bytes.Repeat([]byte{1}, 1<<20))
		runtime.KeepAlive(all)
	}
}

// brief ends by itself as soon as somebody calls.
func brief() {
	l, err := net.Listen("tcp", ":7")
	if err != nil {
		panic(err)
	}
	fmt.Println("listens")
	_, _ = l.Accept()
	os.Exit(5)
}

// heard is a buffer that is written and read at once.
type heard struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (h *heard) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.b.Write(p)
}

func (h *heard) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.b.String()
}

// eventually polls until the condition holds, and fails with the complaint after 30 s.
func eventually(t *testing.T, complaint string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	end := time.After(30 * time.Second)
	for !holds() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatal(complaint)
		}
	}
}

// network makes a run of its own.
func network(t *testing.T) (e *container.Engine, n *container.Network, image string) {
	t.Helper()
	e = containertest.Engine(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	image = build(t, e, self)
	n, err = e.Network(t.Context(), containertest.Run(t, e))
	if err != nil {
		t.Fatal(err)
	}
	return e, n, image
}

// build makes an image for one test.
func build(t *testing.T, e *container.Engine, program string) string {
	t.Helper()
	image, err := e.Build(t.Context(), "test", program)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Discard(context.Background(), image); err != nil {
			t.Error(err)
		}
	})
	return image
}

// start starts the part of the test binary.
func start(t *testing.T, n *container.Network, s container.Spec, part string) (*container.Container, *heard) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	log := &heard{}
	s.Name, s.Command, s.Stdout = part, []string{self}, log
	if s.Env == nil {
		s.Env = map[string]string{}
	}
	s.Env["CONTAINER_TEST_PART"] = part
	if s.Host == nil {
		if s.Address, err = n.Address(); err != nil {
			t.Fatal(err)
		}
	}
	c, err := n.Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return c, log
}

// answers reports whether what is said to addr comes back within the time.
func answers(addr string, within time.Duration) bool {
	c, err := net.DialTimeout("tcp", addr, within)
	if err != nil {
		return false
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(within))
	_, _ = c.Write([]byte("x"))
	n, _ := c.Read(make([]byte, 1))
	return n == 1
}

// state is the letter of a process's state, as /proc shows it.
func state(t *testing.T, pid int) string {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	return string(stat[bytes.LastIndexByte(stat, ')')+2])
}

func TestContainerLife(t *testing.T) {
	t.Setenv("CONTAINER_TEST_SECRET", "of this process")
	_, n, image := network(t)
	addr, err := n.Address()
	if err != nil {
		t.Fatal(err)
	}
	c, log := start(t, n, container.Spec{Image: image}, "echo")
	addr = addr.Next() // start took the one after
	echo := net.JoinHostPort(addr.String(), "7")
	eventually(t, "the program does not answer at its address", func() bool { return answers(echo, time.Second) })

	t.Run("the process is the program's own", func(t *testing.T) {
		pid, err := c.PID(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err != nil || !strings.Contains(string(line), filepath.Base(os.Args[0])) || strings.Contains(string(line), "init") {
			t.Errorf("process %d is %q (%v), want the test binary", pid, line, err)
		}
	})
	t.Run("it can gain no rights, and has no raw sockets", func(t *testing.T) {
		pid, err := c.PID(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			t.Fatal(err)
		}
		const netRaw = 1 << 13 // CAP_NET_RAW of capabilities(7)
		var rights uint64
		if _, bounds, found := strings.Cut(string(status), "CapBnd:"); !found {
			t.Fatalf("no CapBnd in %s", status)
		} else if _, err := fmt.Sscanf(bounds, "%x", &rights); err != nil {
			t.Fatal(err)
		}
		if rights&netRaw != 0 || !strings.Contains(string(status), "NoNewPrivs:\t1") {
			t.Errorf("capabilities %x, want none of raw sockets, and no new privileges: %s", rights, status)
		}
	})
	t.Run("the environment is what was given", func(t *testing.T) {
		eventually(t, "the program was not heard", func() bool { return strings.Contains(log.String(), "\n") })
		if !strings.Contains(log.String(), `secret ""`) {
			t.Errorf("it got this process's environment: %s", log)
		}
		if strings.Contains(log.String(), "pid 1,") {
			t.Errorf("the program is process 1: %s", log)
		}
	})
	t.Run("a frozen program does not answer, and goes on", func(t *testing.T) {
		if err := c.Pause(t.Context()); err != nil {
			t.Fatal(err)
		}
		if answers(echo, 200*time.Millisecond) {
			t.Error("a frozen program answers")
		}
		if err := c.Unpause(t.Context()); err != nil {
			t.Fatal(err)
		}
		eventually(t, "a thawed program does not answer", func() bool { return answers(echo, time.Second) })
	})
	t.Run("signals reach it, and it ends by itself", func(t *testing.T) {
		if err := c.Signal(t.Context(), syscall.SIGUSR1); err != nil {
			t.Fatal(err)
		}
		eventually(t, "no signal came", func() bool { return strings.Contains(log.String(), "got user defined signal 1") })
		if err := c.Signal(t.Context(), syscall.SIGSTOP); !errors.Is(err, container.ErrEngine) {
			t.Errorf("SIGSTOP: %v, want ErrEngine", err)
		}
		if err := c.Stop(t.Context(), 5*time.Second); err != nil {
			t.Fatal(err)
		}
		if exit := c.Exit(); exit.Code != 7 || exit.Memory || exit.Err != nil || !strings.Contains(log.String(), "got terminated") {
			t.Errorf("exit %+v, log %s: want the code that the program chose", exit, log)
		}
		for name, err := range map[string]error{"signal": c.Signal(t.Context(), syscall.SIGUSR1), "pause": c.Pause(t.Context())} {
			if !errors.Is(err, container.ErrEnded) {
				t.Errorf("%s of an ended container: %v, want ErrEnded", name, err)
			}
		}
	})
}

func TestKillOfAFrozenContainer(t *testing.T) {
	_, n, image := network(t)
	c, _ := start(t, n, container.Spec{Image: image}, "echo")
	pid, err := c.PID(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := state(t, pid); s != "D" && s != "S" {
		t.Errorf("state %s of a frozen process", s)
	}
	if err := c.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if exit := c.Exit(); exit.Code != 137 || exit.Memory {
		t.Errorf("exit %+v, want code 137", exit)
	}
	if err := c.Kill(t.Context()); err != nil {
		t.Errorf("kill of a killed container: %v", err)
	}
	if _, err := c.PID(t.Context()); !errors.Is(err, container.ErrEnded) {
		t.Errorf("process of a killed container: %v, want ErrEnded", err)
	}
}

func TestContainerKilledForMemory(t *testing.T) {
	_, n, image := network(t)
	c, _ := start(t, n, container.Spec{Image: image, Memory: 64 << 20}, "hog")
	select {
	case <-c.Exited():
	case <-time.After(time.Minute):
		t.Fatal("it takes memory without end, and is not killed")
	}
	if exit := c.Exit(); !exit.Memory || exit.Code != 137 {
		t.Errorf("exit %+v, want one for memory", exit)
	}
}

func TestBuildOnce(t *testing.T) {
	e, _, image := network(t)
	self, _ := os.Executable()
	again, err := e.Build(t.Context(), "test", self)
	if err != nil || again != image {
		t.Errorf("built again: %s (%v), want %s", again, err, image)
	}
	changed := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(changed, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	other := build(t, e, changed)
	if other == image {
		t.Errorf("another program has the same image %s", image)
	}
	if program, err := e.Program(t.Context(), other); err != nil || program != changed {
		t.Errorf("the image runs %q (%v), want %s", program, err, changed)
	}
	if _, err := e.Build(t.Context(), "test", filepath.Join(t.TempDir(), "none")); !errors.Is(err, container.ErrImage) {
		t.Errorf("no program: %v, want ErrImage", err)
	}
}

func TestRunsAtOnceHaveNetworksOfTheirOwn(t *testing.T) {
	e := containertest.Engine(t)
	var all sync.WaitGroup
	for range 4 {
		run := containertest.Run(t, e)
		all.Go(func() {
			if _, err := e.Network(t.Context(), run); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// Remove and RemoveAt take away what runs, what is frozen and what has ended.
func TestRemove(t *testing.T) {
	for name, remove := range map[string]func(*container.Engine, context.Context, string) error{
		"Remove": (*container.Engine).Remove,
		"RemoveAt": func(e *container.Engine, ctx context.Context, run string) error {
			return container.RemoveAt(ctx, e.Host(), run)
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := containertest.Engine(t)
			run := containertest.Run(t, e)
			n, err := e.Network(t.Context(), run)
			if err != nil {
				t.Fatal(err)
			}
			self, _ := os.Executable()
			image := build(t, e, self)
			var started []*container.Container
			for range 3 {
				c, _ := start(t, n, container.Spec{Image: image}, "echo")
				started = append(started, c)
			}
			if err := errors.Join(started[0].Pause(t.Context()), started[1].Kill(t.Context())); err != nil {
				t.Fatal(err)
			}
			if n, err := e.Left(t.Context(), run); n != 4 || err != nil {
				t.Errorf("%d things (%v), want three containers and a network", n, err)
			}
			if err := remove(e, t.Context(), run); err != nil {
				t.Fatal(err)
			}
			for _, c := range started {
				<-c.Exited()
			}
			if n, err := e.Left(t.Context(), run); n != 0 || err != nil {
				t.Errorf("%d things are left (%v)", n, err)
			}
		})
	}
}
