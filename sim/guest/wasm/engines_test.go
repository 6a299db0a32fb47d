package wasm

import (
	"context"
	"fmt"
	"testing"

	"github.com/tetratelabs/wazero"
)

// transcript runs a part on inputs that depend only on what it does, and returns all that comes out of it.
func transcript(t *testing.T, m *Module, part string) string {
	t.Helper()
	w := startOn(t, m, part, 1)
	out, conn := "", int32(0)
	inputs := []func(){
		func() { w.program.Connected(conn, "") },
		func() { w.program.Deliver(conn, []byte("one\ntw")) },
		func() { w.program.Deliver(conn, []byte("o\n")) },
		w.program.Signal,
		func() { w.program.HangUp(conn, true) },
	}
	for {
		s := w.program.Run()
		_, _ = fmt.Sscanf(w.net.String(), "dial %d", &conn)
		out += fmt.Sprintf("%d %+v %d\n%s%s", w.mono, s, w.program.(*program).budget.Get(), w.net.String(), w.printed.String())
		w.net.Reset()
		w.printed.Reset()
		switch {
		case s.Exited || s.Fell != "" || len(inputs) == 0:
			return out
		case s.Next > 0:
			w.mono = max(w.mono, s.Next)
		default:
			inputs[0]()
			inputs = inputs[1:]
		}
	}
}

// The compiler and the interpreter of wazero agree on every byte, every look at the clock and every pass of a loop.
func TestEnginesAgreeLong(t *testing.T) {
	if testing.Short() {
		t.Skip("the interpreter is slow")
	}
	needsGo(t)
	code, err := built()
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	var engines []*Module
	for _, config := range []wazero.RuntimeConfig{wazero.NewRuntimeConfig(), wazero.NewRuntimeConfigInterpreter()} {
		m, err := compile(ctx, code, config, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = m.Close(ctx) }()
		engines = append(engines, m)
	}
	for _, part := range []string{"hello", "timers", "talk", "give up", "inside", "term", "pipe", "random", "panic"} {
		if a, b := transcript(t, engines[0], part), transcript(t, engines[1], part); a != b {
			t.Errorf("%s: the compiler gives\n%sthe interpreter\n%s", part, a, b)
		}
	}
}
