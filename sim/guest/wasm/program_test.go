package wasm

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
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
	if os.Getenv("CI") == "true" {
		t.Fatal("the go command, which builds the program of the test, is not in the PATH")
	}
	t.Skip("the go command, which builds the program of the test, is not in the PATH")
}

// world is a Host whose clock moves when it is asked, or when a program waits.
type world struct {
	mono    int64
	random  *rand.ChaCha8
	printed string
	net     string // what the program did to its connections
	program guest.Program
}

func (w *world) Clock() (mono, wall int64) {
	w.mono += 100
	return w.mono, w.mono + 1_700_000_000e9
}

func (w *world) Random(p []byte)              { _, _ = w.random.Read(p) }
func (w *world) Dial(conn int32, addr string) { w.net += fmt.Sprintf("dial %d %s\n", conn, addr) }
func (w *world) Write(conn int32, p []byte)   { w.net += fmt.Sprintf("write %d %q\n", conn, p) }
func (w *world) Close(conn int32)             { w.net += fmt.Sprintf("close %d\n", conn) }
func (w *world) Print(_ int32, p []byte)      { w.printed += string(p) }

// start starts a part of the test program.
func start(t testing.TB, part string) *world {
	t.Helper()
	needsGo(t)
	m, err := compiled()
	if err != nil {
		t.Fatal(err)
	}
	return startOn(t, m, part)
}

func startOn(t testing.TB, m *Module, part string) *world {
	w := &world{mono: 1e9, random: rand.NewChaCha8([32]byte{1})}
	w.program = m.Start([]string{"DO=" + part, "NAME=world"}, w)
	t.Cleanup(w.program.Kill)
	return w
}

// finish runs a program that waits for nothing but time to its end.
func (w *world) finish(t testing.TB) guest.State {
	t.Helper()
	for {
		s := w.program.Run()
		if s.Exited || s.Fell != "" {
			return s
		}
		if s.Next == 0 {
			t.Fatalf("it waits for an input after\n%s", w.printed)
		}
		w.mono = max(w.mono, s.Next)
	}
}

// says fails the test unless the program printed exactly this.
func (w *world) says(t testing.TB, want string) {
	t.Helper()
	if w.printed != want {
		t.Errorf("it printed\n%swant\n%s", w.printed, want)
	}
}

func TestPrintsAndExits(t *testing.T) {
	w := start(t, "hello")
	if s := w.finish(t); !s.Exited || s.Code != 3 || s.Fell != "" {
		t.Errorf("state %+v", s)
	}
	w.says(t, "hello world\ntrouble\n")
}

func TestTimersFollowTheHost(t *testing.T) {
	w := start(t, "timer")
	if s := w.finish(t); !s.Exited || s.Code != 0 {
		t.Errorf("state %+v", s)
	}
	w.says(t, "1s 2023-11-14 22:13:22\n2s 2023-11-14 22:13:23\n3s 2023-11-14 22:13:24\n")
}
