package httpclient

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/internal/servetest"
)

// says returns the address of a server that says the same to every request, and keeps the connection.
func says(t *testing.T, text string) string {
	t.Helper()
	return "http://" + servetest.Serve(t, func(c net.Conn) {
		in := bufio.NewReader(c)
		if _, err := http.ReadRequest(in); err != nil {
			return
		}
		_, _ = io.WriteString(c, text)
		_, _ = io.Copy(io.Discard, in) // until the client closes
	})
}

func TestAnswersOfHostileServers(t *testing.T) {
	client := New(&http.Transport{})
	defer client.CloseIdleConnections()
	for name, c := range map[string]struct {
		says string
		want error
	}{
		"another protocol": {says: "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n", want: ErrSwitched},
		"a long line":      {says: strings.Repeat("x", 1<<15) + "\r\n\r\n"},
		"nothing":          {want: context.DeadlineExceeded},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, says(t, c.says), nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err == nil {
			resp.Body.Close()
		}
		if err == nil || len(err.Error()) > saidMax+100 || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %.400v, want %v", name, err, c.want)
		}
		if os.IsTimeout(err) != errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: a time-out: %v", name, os.IsTimeout(err))
		}
		cancel()
	}
}

func TestRedirectsAreAnswers(t *testing.T) {
	client := New(&http.Transport{})
	defer client.CloseIdleConnections()
	resp, err := client.Get(says(t, "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"))
	if err != nil || resp.StatusCode != http.StatusFound {
		t.Fatalf("%v, %v", resp, err)
	}
	defer resp.Body.Close()
	if err := Status("the target", resp); err == nil || err.Error() != "the target answered 302" {
		t.Error(err)
	}
}
