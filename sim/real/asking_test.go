package real

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Any user of the machine reaches the embedded Redis, which is this process: no bytes end it, or have it make room for what has not come.
func TestTheEmbeddedRedisTakesRequestsOnly(t *testing.T) {
	e, err := startEmbedded()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.close)
	client := redis.NewClient(&redis.Options{Addr: e.addr(), DisableIdentity: true})
	t.Cleanup(func() { _ = client.Close() })
	big := strings.Repeat("x", askedWord)
	if err := client.Set(t.Context(), "k", big, 0).Err(); err != nil {
		t.Errorf("a value of %d bytes: %v", len(big), err)
	}
	for name, text := range map[string]string{
		"length beyond any":  "*1\r\n$9223372036854775000\r\n",
		"length that wraps":  "*1\r\n$9223372036854775807\r\n",
		"more than is taken": "*1\r\n$1048577\r\n",
		"no words":           "*0\r\n",
		"fewer than none":    "*-1\r\n",
		"a word of none":     "*1\r\n$-1\r\n",
		"too many words":     "*65537\r\n",
		"too much in all":    "*17\r\n" + strings.Repeat("$1048576\r\n"+big+"\r\n", 16) + "$1\r\n",
		"a line without end": strings.Repeat("1", 100),
		"a number for one":   "*1\r\n:1\r\n",
		"no line":            "*\n",
		"short line":         "\r\n",
		"a word in a line":   "PING\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			c := dial(t, e.addr())
			_ = c.SetDeadline(time.Now().Add(30 * time.Second))
			_, _ = io.WriteString(c, text) // it may be refused before its end
			if got, err := io.ReadAll(c); len(got) > 0 || isTimeout(err) {
				t.Errorf("answered %.50q, %v; want the connection ended", got, err)
			}
		})
	}
	for _, args := range [][]any{{"SETRANGE", "k", "4611686018427387904", "x"}, {"SETBIT", "b", "9223372036854775807", "1"}} {
		if err := client.Do(t.Context(), args...).Err(); err == nil || !strings.Contains(err.Error(), "embedded Redis has no") {
			t.Errorf("%v: %v", args, err)
		}
	}
	if got, err := client.Get(t.Context(), "k").Result(); err != nil || got != big {
		t.Errorf("after all that: %d bytes, %v", len(got), err)
	}
	e.halt()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := client.Get(ctx, "k").Err(); err == nil {
		t.Error("a halted Redis answers")
	}
	if err := e.resume(); err != nil {
		t.Fatal(err)
	}
	if got, err := client.Get(t.Context(), "k").Result(); err != nil || got != big {
		t.Errorf("after a restart: %d bytes, %v", len(got), err)
	}
}

func isTimeout(err error) bool {
	timeout, ok := err.(net.Error) //nolint:errorlint // as a connection returns it
	return ok && timeout.Timeout()
}
