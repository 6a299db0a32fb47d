package headerlines

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

const ask = "POST / HTTP/1.1\r\nHost: h\r\n"

// short returns a header of so many lines, that of the request and the empty one included.
func short(lines int) string {
	var b strings.Builder
	b.WriteString(ask)
	for i := range lines - 3 {
		fmt.Fprintf(&b, "%x:\r\n", i)
	}
	return b.String() + "\r\n"
}

func body(length int, text string) string {
	return fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", ask, length, text)
}

// serve returns a server that reads bodies and answers with their length.
func serve(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	answer := func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		fmt.Fprintln(w, n, err)
	}
	s := Server(&http.Server{Handler: http.HandlerFunc(answer), ReadHeaderTimeout: time.Minute})
	go func() { _ = s.Serve(Listen(l)) }() // until it is closed
	t.Cleanup(func() { s.Close() })
	return l.Addr().String()
}

// A header is cut off at its lines wherever it begins: on a new connection, after another request, and in the bytes that came with one.
func TestLinesOfHeadersAreBounded(t *testing.T) {
	lines := strings.Repeat("\n", 3000)
	for name, tt := range map[string]struct {
		sent []string // each but the first when the one before was answered
		want int      // the status of the last answer; 0: closed without one
	}{
		"honest":                      {[]string{short(10), short(30), short(10)}, 200},
		"as many as are allowed":      {[]string{short(Most)}, 200},
		"one more":                    {[]string{short(Most + 1)}, 400},
		"after another":               {[]string{short(10), short(Most + 1)}, 0},
		"a body of lines":             {[]string{body(3000, lines)}, 200},
		"after a body of lines":       {[]string{body(3000, lines), body(2, "{}"), short(Most)}, 200},
		"of a long body, the end":     {[]string{body(30000, strings.Repeat(lines, 9)+strings.Repeat("x", 3000)), short(30)}, 200},
		"in the bytes after a body":   {[]string{body(2, "{}"), body(2, "{}"), body(1, "x") + short(Most+1), ""}, 0},
		"in the bytes after a header": {[]string{ask + "\r\n" + short(Most+1), ""}, 0},
		"in few bytes after a body":   {[]string{body(1, "x") + short(10), ""}, 0},
		"a trailer":                   {[]string{ask + "tRailer: a,b\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"}, 400},
		"a trailer after another":     {[]string{short(10), ask + "Trailer:\r\n\r\n"}, 0},
		"what only looks like one":    {[]string{ask + "Trailers: a\r\nA-Trailer: trailer: b\r\nTrail: er\r\n\r\n", short(10)}, 200},
		"after empty lines":           {[]string{body(0, ""), "\r\n\r\n" + short(Most)}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := net.Dial("tcp", serve(t))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if err := c.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
				t.Fatal(err)
			}
			in, status := bufio.NewReader(c), 0
			for _, text := range tt.sent {
				if _, err := io.WriteString(c, text); err != nil {
					t.Fatal(err)
				}
				res, err := http.ReadResponse(in, nil)
				if tt.want == 0 && (errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET)) {
					status = 0
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, res.Body); err != nil {
					t.Fatal(err)
				}
				_ = res.Body.Close()
				status = res.StatusCode
			}
			if status != tt.want {
				t.Errorf("the last answer is %d, wanted %d", status, tt.want)
			}
		})
	}
}

// What came with a body's end is buffered by the server, past what is counted: where it may be a request, the connection ends with the answer.
func TestNothingIsReadAheadOfAnAnswer(t *testing.T) {
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	c := New(far)
	read := func(size int, text string) error {
		t.Helper()
		sent := make(chan error, 1)
		go func() {
			_, err := io.WriteString(near, text)
			sent <- err
		}()
		_, err := c.Read(make([]byte, size))
		if failed := <-sent; failed != nil {
			t.Fatal(failed)
		}
		return err
	}
	many := strings.Repeat("\n", Most)
	state(c, http.StateNew)
	if err := read(4096, ask+"\r\n"); err != nil {
		t.Fatal(err)
	}
	state(c, http.StateActive)
	for _, err := range []error{read(4096, many), read(4096, "}G / HTTP/1.1"+many), read(1, "G")} {
		if err != nil {
			t.Fatalf("a body: %v", err)
		}
	}
	state(c, http.StateIdle)
	if n, err := near.Write([]byte("\n")); err == nil {
		t.Errorf("%d bytes more are taken", n)
	}
}
