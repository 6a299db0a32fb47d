package logs

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A pipe that is quiet does not keep its reader waiting, and loses nothing when more comes than it reads ahead.
func TestPipe(t *testing.T) {
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p := newPipe(from)
	b := make([]byte, 64<<10)
	if n, err := p.Read(b); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("an empty pipe gives %d bytes, %v", n, err)
	}
	want := bytes.Repeat([]byte("0123456789abcdef"), aheadMax/4)
	written := make(chan error)
	go func() {
		_, err := to.Write(want)
		written <- errors.Join(err, to.Close())
	}()
	var got []byte
	for t.Context().Err() == nil && len(got) < len(want) {
		n, _ := p.Read(b)
		got = append(got, b[:n]...)
	}
	if err := <-written; err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes of %d, %v", len(got), len(want), err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}
