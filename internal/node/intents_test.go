package node

import (
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/internal/redistest"
	"github.com/leasestorm/leasestorm/internal/servetest"
)

// A node of intents that waits for the first answer of Redis holds nothing, so it ends cleanly on a stop signal.
func TestStopsWhileRedisDoesNotAnswer(t *testing.T) {
	for _, role := range []string{roleWorker, roleBoth} {
		asked := make(chan struct{}, 1)
		mute := servetest.Serve(t, func(net.Conn) {
			select {
			case asked <- struct{}{}:
			default:
			}
		})
		c := startChild(t, []string{"LEASESTORM_TOKENS=a sha256:" + hex64 + " v3:read", "LEASESTORM_REDIS_URL=redis://" + mute},
			"--system=intents", "--role="+role, "--api=127.0.0.1:0")
		for range 3 { // failed attempts
			<-asked
		}
		c.signal(syscall.SIGTERM)
		select {
		case <-c.done:
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: it did not end within 10 s", role)
		}
		if code := c.cmd.ProcessState.ExitCode(); code != exitOK {
			t.Errorf("%s: exit %d, want %d: %s", role, code, exitOK, c.log.String())
		}
	}
}

// The counters of the specification are served beside Go's own, on the API's address or on one of their own. There, a worker that waits for
// Redis reports that it is not ready.
func TestMetrics(t *testing.T) {
	server := redistest.Start(t)
	env := []string{"LEASESTORM_TOKENS=a sha256:" + hex64 + " v3:read", "LEASESTORM_REDIS_URL=redis://" + server.Addr()}
	<-startChild(t, env, "intents", "bootstrap").done
	for _, role := range []string{roleAPI, roleWorker, roleBoth} {
		api, health := "127.0.0.1:"+freePort(t), "127.0.0.1:"+freePort(t)
		startChild(t, env, "--system=intents", "--role="+role, "--api="+api, "--health="+health).wait("ready")
		for _, path := range []string{"/healthz", "/readyz"} {
			code, text := get(t, health, path)
			for strings.Contains(text, "not-started") { // the node may report this until its leases have their first answer
				code, text = get(t, health, path)
			}
			if code != http.StatusOK {
				t.Errorf("%s %s: %d %s", role, path, code, text)
			}
		}
		counted(t, health)
		if role == roleWorker {
			continue
		}
		if code, _ := get(t, api, "/metrics"); code != http.StatusNotFound {
			t.Errorf("%s: they are on the API's address too: %d", role, code)
		}
		api = "127.0.0.1:" + freePort(t)
		startChild(t, env, "--system=intents", "--role="+role, "--api="+api).wait("ready")
		counted(t, api)
	}
}

func TestWorkerThatWaitsIsNotReady(t *testing.T) {
	health := "127.0.0.1:" + freePort(t)
	startChild(t, []string{"LEASESTORM_REDIS_URL=redis://127.0.0.1:" + freePort(t)}, "--system=intents", "--role=worker",
		"--health="+health)
	code, text := get(t, health, "/readyz")
	if code != http.StatusServiceUnavailable || !strings.Contains(text, "not-started") && !strings.Contains(text, "silent") {
		t.Errorf("%d %s", code, text)
	}
}

// get sends a request to a node that may still be starting.
func get(t *testing.T, addr, path string) (code int, text string) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for timeout := time.After(20 * time.Second); ; {
		resp, err := http.Get("http://" + addr + path)
		if err == nil {
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			return resp.StatusCode, string(body)
		}
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatal(err)
		}
	}
}

func counted(t *testing.T, addr string) {
	t.Helper()
	code, text := get(t, addr, "/metrics")
	for _, want := range []string{
		`v3_intents_total{mode="phase2",outcome="conflict"} 0`, "v3_idempotent_replay_total 0",
		`v3_worker_start_total{outcome="rejected_busy"} 0`, "go_goroutines ",
	} {
		if code != http.StatusOK || !strings.Contains(text, "\n"+want) {
			t.Errorf("%s: %d, without %s", addr, code, want)
		}
	}
}

// By default, a worker has a name that survives restarts, and an API has none.
func TestDefaultName(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"--role=worker": host + "-worker", "--role=both": host + "-both", "--role=api": "", "--role=worker --name=w1": "w1",
	} {
		env := map[string]string{"LEASESTORM_REDIS_URL": "redis://127.0.0.1:1", "LEASESTORM_TOKENS": "a sha256:" + hex64 + " v3:read"}
		s, err := parseIntents(strings.Fields(args), func(name string) string { return env[name] }, io.Discard, true)
		if err != nil || s.name != want {
			t.Errorf("%s: %q, %v; want %q", args, s.name, err, want)
		}
	}
}
