// Package servetest makes servers with wrong answers for tests.
package servetest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
)

// Serve listens on a free port of the loopback interface until the test ends. It calls serve for each connection, on a goroutine of
// its own, and closes the connection when serve returns or the test ends, which waits for serve.
func Serve(t testing.TB, serve func(net.Conn)) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); all.Wait() })
	all.Go(func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			stop := context.AfterFunc(t.Context(), func() { _ = c.Close() })
			all.Go(func() {
				defer stop()
				defer c.Close()
				serve(c)
			})
		}
	})
	return l.Addr().String()
}

// Commands reads commands of Redis from a connection, each as words, and answers with what answer returns, until the connection ends.
func Commands(c net.Conn, answer func(words []string) (reply string)) {
	for in := bufio.NewReader(c); ; {
		words, err := command(in)
		if err != nil {
			return
		}
		if _, err := io.WriteString(c, answer(words)); err != nil {
			return
		}
	}
}

// command reads one command.
func command(in *bufio.Reader) (words []string, err error) {
	var n int
	if _, err := fmt.Fscanf(in, "*%d\r\n", &n); err != nil {
		return nil, err
	}
	for range n {
		var size int
		if _, err := fmt.Fscanf(in, "$%d\r\n", &size); err != nil {
			return nil, err
		}
		word := make([]byte, size+len("\r\n"))
		if _, err := io.ReadFull(in, word); err != nil {
			return nil, err
		}
		words = append(words, string(word[:size]))
	}
	return words, nil
}
