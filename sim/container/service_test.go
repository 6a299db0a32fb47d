package container_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/internal/containertest"
	"github.com/leasestorm/leasestorm/sim/container"
)

// composed returns the name of a project, the image of its services, and what has the engine make a container of node-1, as a part of the
// test binary.
func composed(t *testing.T, e *container.Engine) (project, image string, compose func(once bool, part string, settings ...string)) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	image = build(t, e, self)
	run := containertest.Run(t, e)
	project = "leasestorm-test-" + strings.ToLower(run)
	return project, image, func(once bool, part string, settings ...string) {
		t.Helper()
		env := append(settings, "CONTAINER_TEST_PART="+part)
		if err := e.Compose(t.Context(), run, project, "node-1", image, once, env, self); err != nil {
			t.Fatal(err)
		}
	}
}

func TestServiceOfAProject(t *testing.T) {
	e := containertest.Engine(t)
	project, image, compose := composed(t, e)
	compose(false, "brief", "A=b=c")
	compose(true, "brief", "A=of a command that was run once")
	all, err := e.Project(t.Context(), project)
	if err != nil || len(all) != 1 || all["node-1"] == nil || all["node-1"].Image != image {
		t.Fatalf("the project has %v (%v), want node-1 alone", all, err)
	}
	s := all["node-1"]
	if env, err := s.Env(t.Context()); err != nil || env["A"] != "b=c" {
		t.Errorf("environment %v (%v)", env, err)
	}
	if at, err := s.Addresses(t.Context()); err != nil || len(at) != 0 {
		t.Errorf("before it runs it is at %v (%v)", at, err)
	}
	log := &heard{}
	c, err := s.Start(t.Context(), log, nil)
	if err != nil {
		t.Fatal(err)
	}
	listens := func(times int) func() bool {
		return func() bool { return strings.Count(log.String(), "listens\n") == times }
	}
	eventually(t, "it is not heard", listens(1))
	call := func() {
		t.Helper()
		at, err := s.Addresses(t.Context())
		if err != nil || len(at) != 1 {
			t.Fatalf("it is at %v (%v), want one address", at, err)
		}
		conn, err := net.DialTimeout("tcp", net.JoinHostPort(at[0].String(), "7"), time.Second)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.Close()
	}
	call()
	<-c.Exited()
	if exit := c.Exit(); !exit.Again || exit.Err != nil {
		t.Errorf("exit %+v of what ended by itself, want one that the engine would mend", exit)
	}
	if at, err := s.Addresses(t.Context()); err != nil || len(at) != 0 {
		t.Errorf("it is at %v (%v), want that the engine does not start it again", at, err)
	}

	if err := s.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c, err = s.Adopt(log, nil); err != nil {
		t.Fatal(err)
	}
	if err := c.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Begin(t.Context()); err != nil {
		t.Errorf("of one that runs: %v", err)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-c.Exited()
	if exit := c.Exit(); exit.Again || exit.Err != nil {
		t.Errorf("exit %+v of what was stopped", exit)
	}
	if c, err = s.Start(t.Context(), log, nil); err != nil {
		t.Fatal(err)
	}
	c.Detach()
	if at, err := s.Addresses(t.Context()); err != nil || len(at) != 1 {
		t.Errorf("what is given up is at %v (%v), want it to run", at, err)
	}

	compose(false, "brief", "A=2")
	if all, err = e.Project(t.Context(), project); !errors.Is(err, container.ErrEngine) || !strings.Contains(err.Error(), "several containers") {
		t.Errorf("%v, %v: want ErrEngine for a service with two containers", all, err)
	}
}

// An engine that is in the middle of starting a container again takes a stop for done, and starts it nevertheless.
func TestServiceStartedAgainDespiteAStop(t *testing.T) {
	e := containertest.Engine(t)
	var stops atomic.Int32
	engine := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "http", "engine" },
		Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", strings.TrimPrefix(e.Host(), "unix://"))
		}},
	}
	host := impostor(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/stop") && stops.Add(1) == 1 {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		engine.ServeHTTP(w, r)
	}))
	project, _, compose := composed(t, e)
	compose(false, "ends")
	through, err := container.At(host)
	if err != nil {
		t.Fatal(err)
	}
	defer through.Close()
	all, err := through.Project(t.Context(), project)
	if err != nil {
		t.Fatal(err)
	}
	c, err := all["node-1"].Start(t.Context(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	<-c.Exited()
	if exit := c.Exit(); !exit.Again || exit.Err != nil || stops.Load() < 2 {
		t.Errorf("exit %+v after %d stops, want one that the engine would mend, and a second stop", exit, stops.Load())
	}
	if at, err := all["node-1"].Addresses(t.Context()); err != nil || len(at) != 0 {
		t.Errorf("it is at %v (%v), want that the engine does not start it again", at, err)
	}
}
