package servetest

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestCommandsAreAnswered(t *testing.T) {
	addr := Serve(t, func(c net.Conn) {
		Commands(c, func(words []string) string { return "+" + strings.Join(words, " ") + "\r\n" })
	})
	for range 2 {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() }) // after the server has closed it
		if _, err := fmt.Fprint(c, "*2\r\n$3\r\nget\r\n$4\r\na\r\nb\r\n*1\r\n$4\r\nping\r\n"); err != nil {
			t.Fatal(err)
		}
		in := bufio.NewReader(c)
		for _, want := range []string{"+get a\r\n", "b\r\n", "+ping\r\n"} {
			if got, err := in.ReadString('\n'); got != want {
				t.Errorf("%q, %v; want %q", got, err, want)
			}
		}
	}
}
