package wasm

import (
	"math/rand/v2"
	"testing"
)

// BenchmarkStart starts a program that connects, and kills it when it waits.
func BenchmarkStart(b *testing.B) {
	w := start(b, "talk")
	m, err := compiled()
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		*w = world{mono: 1e9, pace: 100, random: rand.NewChaCha8([32]byte{1})}
		p := m.Start([]string{"DO=talk"}, w)
		p.Run()
		p.Kill()
	}
}

// BenchmarkLine delivers a line to a program, which writes an answer and waits again.
func BenchmarkLine(b *testing.B) {
	w := start(b, "talk")
	w.program.Run()
	w.program.Connected(3, "")
	w.program.Run()
	line := []byte("line\n")
	for b.Loop() {
		w.net.Reset()
		w.program.Deliver(3, line)
		w.program.Run()
	}
	if w.net.String() != "write 3 \"got line\\n\"\n" {
		b.Errorf("it wrote %s", w.net.String())
	}
}

// BenchmarkTimer runs a program that waits for time alone.
func BenchmarkTimer(b *testing.B) {
	w := start(b, "tick")
	next := w.program.Run().Next
	for b.Loop() {
		w.mono = max(w.mono, next)
		next = w.program.Run().Next
	}
}
