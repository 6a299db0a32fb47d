package leasenode

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// yes is a shell adapter that grants every request.
const yes = `while read -r l; do id=${l#*'"id":'}; id=${id%%,*}; echo "{\"id\":$id,\"ok\":true,\"fence\":7}"; done`

// A wrong answer fails its request, and one line names the adapter, the session and the answer. No process of an adapter outlives its stop.
func TestWrongAnswers(t *testing.T) {
	for name, test := range map[string]struct {
		script string
		err    string // part of the answer's error; "": the answer is right
		wrong  string // part of the report; "": none
	}{
		"right":          {yes, "", ""},
		"no JSON":        {"read l; echo hello;" + yes, "session s: no JSON", "hello"},
		"another id":     {`read l; echo '{"id":99,"ok":true}';` + yes, "without one (id 99)", "id"},
		"also prints":    {"read l; echo hello; echo '{\"id\":1,\"ok\":true}';" + yes, "session s: no JSON", "hello"},
		"no ok":          {`read l; echo '{"id":1}';` + yes, "not an answer", "id"},
		"too long":       {"read l; head -c 70000 /dev/zero | tr '\\0' x; echo;" + yes, "longer than 64 KiB", "xxx"},
		"dies":           {"read l; exit 5", "session s, acquire: it ended with exit status 5", ""},
		"dies by signal": {"read l; kill -9 $$", "it ended with signal: killed", ""},
		"forks":          {"read l; sleep 600 & exit 0", "it ended with exit code 0", ""},
		"never ends":     {yes + "; sleep 600", "", "ran on"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var reported []string
			a, err := startAdapter([]string{"sh", "-c", test.script}, func(string) {}, func(text string) {
				mu.Lock()
				defer mu.Unlock()
				reported = append(reported, text)
			})
			if err != nil {
				t.Fatal(err)
			}
			got := a.ask(t.Context(), opAcquire, "s", "k", time.Second)
			a.stop()
			if test.err == "" && (!got.ok() || got.Fence != 7) || test.err != "" && (got.ok() || !strings.Contains(got.why(), test.err)) {
				t.Errorf("%+v, want %q", got, test.err)
			}
			text := strings.Join(reported, "\n")
			if (test.wrong == "") != (text == "") || !strings.Contains(text, test.wrong) || len(reported) > 1 {
				t.Errorf("reports %q, want %q", text, test.wrong)
			}
		})
	}
}

// A late answer is not taken for the next request's, and "lost" reaches the lease of its key.
func TestLateAndUnasked(t *testing.T) {
	lost := make(chan string, 1)
	script := `read l; echo '{"event":"lost","key":"k"}'; read m; echo '{"id":1,"ok":true,"fence":1}'; echo '{"id":2,"ok":true,"fence":2}'; read n`
	a, err := startAdapter([]string{"sh", "-c", script}, func(key string) { lost <- key }, func(text string) { t.Error(text) })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		if key := <-lost; key != "k" {
			t.Errorf("lost %q", key)
		}
		cancel()
	}()
	if got := a.ask(ctx, opRenew, "s", "k", time.Second); got.err == nil {
		t.Errorf("%+v", got)
	}
	if got := a.ask(t.Context(), opRenew, "s", "k", time.Second); got.Fence != 2 {
		t.Errorf("%+v", got)
	}
	a.stop()
}

// An adapter that ends loses its leases at once, although the target does not answer the node's discovery.
func TestEndLosesLeases(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &node{terms: map[string]*term{}}
	n.target, n.pollTimeout = "http://"+silent.Addr().String(), time.Hour
	a, err := startAdapter([]string{"sh", "-c", "exit 5"}, func(string) {}, func(text string) { t.Error(text) })
	if err != nil {
		t.Fatal(err)
	}
	held := &term{n: &n.settings, a: a, session: "s"}
	held.ctx, held.end = context.WithCancelCause(context.Background())
	n.terms["s"] = held
	served := make(chan error)
	go func() { served <- n.serve(t.Context(), a) }()
	<-held.ctx.Done()
	_ = silent.Close()
	if err := <-served; err == nil || !strings.Contains(err.Error(), "exit status 5") {
		t.Error(err)
	}
	n.http.CloseIdleConnections()
}
