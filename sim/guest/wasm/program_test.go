package wasm

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/leasestorm/leasestorm/sim/guest"
)

var built = sync.OnceValues(func() ([]byte, error) { return Build(context.Background(), "testdata/program", nil) })

var compiled = sync.OnceValues(func() (*Module, error) {
	code, err := built()
	if err != nil {
		return nil, err
	}
	return Compile(context.Background(), code)
})

func TestMain(m *testing.M) {
	code := m.Run()
	if module, err := compiled(); err == nil {
		_ = module.Close(context.Background())
	}
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// needsGo skips a test where nothing builds Go programs.
func needsGo(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath("go"); err == nil {
		return
	}
	const why = "the go command, which builds the program of the test, is not in the PATH"
	if os.Getenv("CI") == "true" {
		t.Fatal(why)
	}
	t.Skip(why)
}

// world is a Host whose clock moves when it is asked, and while a program waits.
type world struct {
	mono    int64
	pace    int64 // what a look at the clock takes
	random  *rand.ChaCha8
	printed strings.Builder
	net     strings.Builder // what the program did to its connections
	program guest.Program
	broken  bool // Print panics
}

func (w *world) Clock() (mono, wall int64) {
	w.mono += w.pace
	return w.mono, w.mono + 1_700_000_000e9
}

func (w *world) Random(p []byte)              { _, _ = w.random.Read(p) }
func (w *world) Dial(conn int32, addr string) { fmt.Fprintf(&w.net, "dial %d %s\n", conn, addr) }
func (w *world) Write(conn int32, p []byte)   { fmt.Fprintf(&w.net, "write %d %q\n", conn, p) }
func (w *world) Close(conn int32)             { fmt.Fprintf(&w.net, "close %d\n", conn) }

func (w *world) Print(_ int32, p []byte) {
	if w.broken {
		panic("the host is broken")
	}
	w.printed.Write(p)
}

// start starts a part of the test program.
func start(t testing.TB, part string) *world {
	t.Helper()
	needsGo(t)
	m, err := compiled()
	if err != nil {
		t.Fatal(err)
	}
	return startOn(t, m, part, 1)
}

func startOn(t testing.TB, m *Module, part string, seed byte) *world {
	t.Helper()
	w := &world{mono: 1e9, pace: 100, random: rand.NewChaCha8([32]byte{seed})}
	w.program = m.Start([]string{"DO=" + part, "NAME=world", "HOSTNAME=node-1"}, w)
	t.Cleanup(w.program.Kill)
	return w
}

// wait runs the program until it waits for an input.
func (w *world) wait(t testing.TB) {
	t.Helper()
	if s := w.run(); s != (guest.State{}) {
		t.Fatalf("it does not wait for an input: %+v after\n%s", s, w.printed.String())
	}
}

// finish runs a program to its end, and fails the test unless it printed exactly this and ended with this exit code.
func (w *world) finish(t testing.TB, code uint32, printed string) {
	t.Helper()
	if s := w.run(); !s.Exited || s.Code != code || s.Fell != "" {
		t.Errorf("it ended with %+v", s)
	}
	if got := w.printed.String(); got != printed {
		t.Errorf("it printed\n%swant\n%s", got, printed)
	}
}

// run runs the program until only an input continues it.
func (w *world) run() guest.State {
	for {
		s := w.program.Run()
		if s.Next == 0 {
			return s
		}
		w.mono = max(w.mono, s.Next)
	}
}

// did fails the test unless the program did exactly this to its connections since the last call.
func (w *world) did(t testing.TB, want string) {
	t.Helper()
	if got := w.net.String(); got != want {
		t.Errorf("on its connections it did\n%swant\n%s", got, want)
	}
	w.net.Reset()
}

func TestPrintsAndExits(t *testing.T) {
	start(t, "hello").finish(t, 3, "hello world \"\" EOF\ntrouble\n")
}

func TestTimersFollowTheHost(t *testing.T) {
	start(t, "timers").finish(t, 0, "1s 2023-11-14 22:13:22\n2s 2023-11-14 22:13:23\n2.5s context deadline exceeded\n")
}

func TestWaitsUntilTheTimerIsDue(t *testing.T) {
	w := start(t, "sleep")
	s := w.program.Run()
	if hour := int64(3600e9); s.Next < hour || s.Next > hour+2e9 {
		t.Fatalf("state %+v", s)
	}
	w.mono = s.Next - 1000
	if again := w.program.Run(); again != s {
		t.Errorf("a Run too early gives %+v, not %+v", again, s)
	}
	w.finish(t, 0, "")
	if s := w.program.Run(); !s.Exited {
		t.Errorf("after its end its state is %+v", s)
	}
}

func TestPanicHasExitCode2(t *testing.T) {
	w := start(t, "panic")
	if s := w.run(); !s.Exited || s.Code != 2 {
		t.Errorf("state %+v", s)
	}
	if !strings.Contains(w.printed.String(), "panic: oh no\n\ngoroutine 1 [running]:") {
		t.Errorf("it printed\n%s", w.printed.String())
	}
}

func TestDeadlockEnds(t *testing.T) {
	w := start(t, "hang")
	if s := w.run(); !s.Exited || s.Code != 2 {
		t.Errorf("state %+v", s)
	}
	if !strings.Contains(w.printed.String(), "all goroutines are asleep") {
		t.Errorf("it printed\n%s", w.printed.String())
	}
}

func TestHasNoFiles(t *testing.T) {
	start(t, "files").finish(t, 0, `open /etc/hosts: no such file or directory true
stat config.yaml: no such file or directory true
Dcrw------- <nil>
Srw------- <nil>
Srw------- <nil>
open new: no such file or directory
`)
}

func TestProgramThatNeverWaitsIsStopped(t *testing.T) {
	for part, why := range map[string]string{
		"loop":  "it computed for too long without waiting",
		"clock": "it ran for more than a second of virtual time without waiting",
		"yield": "it ran for more than a second of virtual time without waiting",
		"print": "it called the system too often without waiting",
	} {
		t.Run(part, func(t *testing.T) {
			w := start(t, part)
			w.pace = 200_000
			w.program.(*program).limits = limits{busy: 1e9, calls: 100_000, loops: 10_000_000}
			if s := w.run(); s.Fell != why {
				t.Errorf("state %+v, printed %d bytes", s, w.printed.Len())
			}
		})
	}
}

func TestPanicOfTheHostIsNotTheProgramsFault(t *testing.T) {
	w := start(t, "hello")
	w.broken = true
	defer func() {
		if r := recover(); r != "the host is broken" {
			t.Errorf("Run panics with %v", r)
		}
	}()
	t.Errorf("state %+v", w.program.Run())
}

func TestKilledProgramIsGone(t *testing.T) {
	for _, part := range []string{"sleep", "talk", "term"} {
		w := start(t, part)
		w.program.Run()
		w.program.Kill()
		if s := w.program.Run(); s.Fell == "" {
			t.Errorf("%s: state %+v", part, s)
		}
	}
	start(t, "sleep").program.Kill() // before its first Run
}

func TestRandomnessIsTheHosts(t *testing.T) {
	start(t, "hello")
	m, err := compiled()
	if err != nil {
		t.Fatal(err)
	}
	printed := func(seed byte) string {
		w := startOn(t, m, "random", seed)
		if s := w.run(); !s.Exited {
			t.Fatalf("state %+v", s)
		}
		return w.printed.String()
	}
	first := printed(1)
	if again := printed(1); again != first {
		t.Errorf("the same randomness gives\n%sand\n%s", first, again)
	}
	if other := printed(2); other == first {
		t.Errorf("another randomness gives the same:\n%s", other)
	}
}
