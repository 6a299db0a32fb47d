package docker

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/internal/containertest"
	"github.com/leasestorm/leasestorm/sim/history"
)

const (
	sessions = 12         // that compose.yaml makes
	nodeMax  = 16_000_000 // bytes of the image of a node; where the linker keeps the methods that nothing calls it is half as large again
)

// project is a fleet with its own images, so that two can run at once.
type project struct {
	t       *testing.T
	name    string
	tag     string
	compose []string
	env     []string
	out     string // folder of what images are made of
}

// needs returns the path of the first program that exists. Without any, it skips the test, or fails it if CI=true.
func needs(t *testing.T, programs ...string) string {
	t.Helper()
	for _, p := range programs {
		if path, err := exec.LookPath(p); err == nil {
			return path
		}
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("none of %v is in PATH", programs)
	}
	t.Skipf("none of %v is in PATH", programs)
	return ""
}

// newProject builds the images and returns a fleet that is not started. The end of the test removes everything.
func newProject(t *testing.T) *project {
	t.Helper()
	_ = containertest.Engine(t)
	docker := needs(t, "docker")
	needs(t, "redis-server")
	id := strings.ToLower(rand.Text()[:10])
	out := t.TempDir()
	p := &project{t: t, name: "leasestorm-test-" + id, tag: "test-" + id, out: out}
	if exec.Command(docker, "compose", "version").Run() == nil {
		p.compose = []string{docker, "compose"}
	} else {
		p.compose = []string{needs(t, "docker-compose")}
	}
	p.compose = append(p.compose, "-p", p.name, "-f", "compose.yaml")
	p.env = append(os.Environ(), "TAG="+p.tag, "OUT="+out, "VERSION=", "ARCH=", "LEASESTORM_TAG="+p.tag, "LEASESTORM_TOKENS_DIR="+
		filepath.Join(out, "tokens.d"), "LEASESTORM_REDIS_IMAGE=leasestorm/redis:"+p.tag, "LEASESTORM_API_PORT=0", "LEASESTORM_TARGET_PORT=0")
	t.Cleanup(p.remove)
	p.must("../scripts/docker", "programs")
	p.must("../scripts/docker", "redis")
	return p
}

// run returns a command's standard output.
func (p *project) run(ctx context.Context, command ...string) (string, error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = p.env
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s", strings.Join(command, " "), err, stderr.Bytes())
	}
	return strings.TrimSpace(string(out)), err
}

func (p *project) must(command ...string) string {
	p.t.Helper()
	out, err := p.run(p.t.Context(), command...)
	if err != nil {
		p.t.Fatal(err)
	}
	return out
}

// do runs a command of compose.
func (p *project) do(args ...string) string {
	p.t.Helper()
	return p.must(append(p.compose[:len(p.compose):len(p.compose)], args...)...)
}

// url returns the address at which a service's port is published on this machine.
func (p *project) url(service string, port int) string {
	p.t.Helper()
	return "http://" + p.do("port", service, strconv.Itoa(port))
}

// toxiproxy returns the address of its API. It is not published, so that no other host can act as a node's Redis.
func (p *project) toxiproxy() string {
	p.t.Helper()
	id := p.do("ps", "-q", "toxiproxy")
	if ports := p.must("docker", "port", id); strings.TrimSpace(ports) != "" {
		p.t.Errorf("toxiproxy is published: %s", ports)
	}
	at := p.must("docker", "inspect", "-f", `{{(index .NetworkSettings.Networks "`+p.name+`_fleet").IPAddress}}`, id)
	return "http://" + strings.TrimSpace(at) + ":8474"
}

// left lists the remains of what compose made.
func (p *project) left(ctx context.Context) (string, error) {
	var all string
	for _, kind := range [][]string{{"ps", "-aq"}, {"network", "ls", "-q"}, {"volume", "ls", "-q"}} {
		out, err := p.run(ctx, append(append([]string{"docker"}, kind...), "--filter", "label=com.docker.compose.project="+p.name)...)
		if err != nil {
			return "", err
		}
		all += out
	}
	return all, nil
}

// remove removes the fleet, if it is still up, and the images.
func (p *project) remove() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if p.t.Failed() {
		logs, _ := p.run(ctx, append(p.compose[:len(p.compose):len(p.compose)], "logs", "--no-color", "--tail", "5")...)
		p.t.Log(logs)
	}
	var wrong []error
	if left, err := p.left(ctx); left != "" || err != nil {
		_, down := p.run(ctx, append(p.compose[:len(p.compose):len(p.compose)], "down", "-v", "-t", "1")...)
		wrong = append(wrong, err, down)
	}
	images, err := p.run(ctx, "docker", "image", "ls", "--format", "{{.Repository}}:{{.Tag}}", "--filter", "reference=leasestorm/*:"+p.tag)
	wrong = append(wrong, err)
	for _, image := range strings.Fields(images) {
		_, err := p.run(ctx, "docker", "rmi", image)
		wrong = append(wrong, err)
	}
	if err := errors.Join(wrong...); err != nil {
		p.t.Error(err)
	}
}

// owners reads the target's sessions: the name of each session's last poller, and the number of sessions of each node.
func owners(ctx context.Context, url string) (of map[string]string, counts map[string]int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/sessions", nil)
	if err != nil {
		return nil, nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	of, counts = map[string]string{}, map[string]int{}
	for lines := json.NewDecoder(resp.Body); lines.More(); {
		var known struct{ Session, Instance string }
		if err := lines.Decode(&known); err != nil {
			return nil, nil, err
		}
		node := known.Instance[:min(len(known.Instance), len("node-1"))]
		of[known.Session] = node
		counts[node]++
	}
	return of, counts, nil
}

// until waits for the shares of each node.
func (p *project) until(url string, want map[string]int) map[string]string {
	p.t.Helper()
	var of map[string]string
	p.waits(func(ctx context.Context) (bool, string) {
		shares, counts, err := owners(ctx, url)
		of = shares
		return err == nil && fmt.Sprint(counts) == fmt.Sprint(want), fmt.Sprintf("the nodes have %v, want %v: %v", counts, want, err)
	})
	return of
}

// waits polls a condition until it is true. The condition also returns what it saw.
func (p *project) waits(so func(context.Context) (bool, string)) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 40*time.Second)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, saw := so(ctx)
		if ok {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			p.t.Fatal(saw)
		}
	}
}

// Three nodes share all sessions. One is killed, and the others poll its sessions. The images are small, and nothing is left.
func TestFleetLong(t *testing.T) {
	if testing.Short() {
		t.Skip("a minute of building and waiting: make long plays it")
	}
	p := newProject(t)
	size, err := strconv.Atoi(p.must("docker", "image", "inspect", "-f", "{{.Size}}", "leasestorm/node:"+p.tag))
	if err != nil || size > nodeMax || size < 1<<20 {
		t.Errorf("the image of a node has %d bytes, at most %d are wanted: %v", size, nodeMax, err)
	}
	p.do("up", "-d")
	target := p.url("target", 9090)
	before := p.until(target, map[string]int{"node-1": 4, "node-2": 4, "node-3": 4})
	if len(before) != sessions {
		t.Errorf("%d sessions are polled, want %d", len(before), sessions)
	}

	p.do("kill", "-s", "SIGKILL", "node-2")
	after := p.until(target, map[string]int{"node-1": 6, "node-3": 6})
	for session, node := range before {
		if node != "node-2" && after[session] != node {
			t.Errorf("%s was taken from %s, which lives", session, node)
		}
	}
	p.judge(p.must("docker", "logs", p.do("ps", "-q", "target")))
	whole := map[string]int{"node-1": 4, "node-2": 4, "node-3": 4}
	p.do("start", "node-2")
	p.until(target, whole)
	p.misfits()
	p.do("kill", "-s", "SIGKILL", "node-2") // a storm begins with the whole fleet
	p.storm()
	p.until(target, whole)
	for _, end := range []os.Signal{os.Kill, os.Interrupt} {
		p.struck(end)
		p.until(target, whole)
	}

	p.tokens()
	http.DefaultClient.CloseIdleConnections()
	p.do("down", "-v", "-t", "5")
	if left, err := p.left(t.Context()); left != "" || err != nil {
		t.Errorf("after down -v there is %q: %v", left, err)
	}
}

// tokens replaces the file of the API's tokens: the old token is refused from then on, and the new one accepted.
func (p *project) tokens() {
	p.t.Helper()
	first, err := os.ReadFile(filepath.Join(p.out, "token"))
	if err != nil {
		p.t.Fatal(err)
	}
	url, other := p.url("api", 8080)+"/api/v3/sessions", rand.Text()
	p.answers(url, "", http.StatusUnauthorized)
	p.answers(url, string(first), http.StatusOK)
	file := filepath.Join(p.out, "tokens.d", "tokens")
	line := fmt.Sprintf("other sha256:%x v3:read\n", sha256.Sum256([]byte(other)))
	if err := errors.Join(os.WriteFile(file+".new", []byte(line), 0o600), os.Chmod(file+".new", 0o644), os.Rename(file+".new", file)); err != nil {
		p.t.Fatal(err)
	}
	p.answers(url, string(first), http.StatusUnauthorized)
	p.answers(url, other, http.StatusOK)
}

// answers waits until the API answers this token with this status.
func (p *project) answers(url, token string, want int) {
	p.t.Helper()
	p.waits(func(ctx context.Context) (bool, string) {
		got, err := status(ctx, url, token)
		return err == nil && got == want, fmt.Sprintf("%s answers %d to the token %.4s…, want %d: %v", url, got, token, want, err)
	})
}

func status(ctx context.Context, url, token string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// storm runs the simulator on the fleet, in a container beside it, and judges the storm. Afterwards all nodes run, the killed one too.
func (p *project) storm() {
	p.t.Helper()
	reports := p.t.TempDir()
	p.env = append(p.env, "LEASESTORM_REPORTS="+reports, "COMPOSE_PROJECT_NAME="+p.name)
	said := p.do("--profile", "storm", "run", "--rm", "-T", "storm", "--seed", "3", "--duration", "50s", "--faults", "crash,freeze,cut", "--criteria", "G1,G2,G3,G8")
	if !strings.Contains(said, "verdict: PASS") {
		p.t.Errorf("the storm over the fleet:\n%s", said)
	}
	found, err := filepath.Glob(filepath.Join(reports, "*", "report.json"))
	if err != nil || len(found) != 1 {
		p.t.Fatalf("reports %v: %v", found, err)
	}
	if again := "simulate check " + filepath.Dir(found[0]) + "\n"; !strings.Contains(said, again) {
		p.t.Errorf("the storm prints no %q for this machine:\n%s", again, said)
	}
}

// everything hits the whole fleet at once, for longer than the test waits.
const everything = `name: struck
nodes: 3
sessions: 12
speed: 1
duration: 10m
timings: {ttl: 5s, renew: 1500ms, heartbeat: 1500ms, discovery: 1500ms, poll: 1s, pollTimeout: 1s, serve: 1ms}
plan:
  - {at: 1ms, kind: freeze, target: node-1, for: 5m}
  - {at: 1ms, kind: crash, target: node-2, for: 5m}
  - {at: 1ms, kind: cut, target: node-3, for: 5m}
  - {at: 2s, kind: redis-freeze, for: 5m}
`

// struck ends a simulator on this machine during its faults. The fleet then recovers, and can be stormed again.
func (p *project) struck(end os.Signal) {
	p.t.Helper()
	dir := p.t.TempDir()
	scenario := filepath.Join(dir, "struck.yaml")
	if err := os.WriteFile(scenario, []byte(everything), 0o600); err != nil {
		p.t.Fatal(err)
	}
	toxiproxy := p.toxiproxy()
	before := p.state(toxiproxy)
	var said bytes.Buffer
	storm := p.simulator("--compose", p.name, "--scenario", scenario, "--report", filepath.Join(dir, "reports"))
	storm.Stdout, storm.Stderr = &said, &said
	if err := storm.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.becomes("all is struck", toxiproxy, func(now string) bool {
		return strings.Contains(now, "node-1 paused\nnode-2 exited\nnode-3 running\nredis paused\n") && strings.Contains(now, `"enabled":false`)
	})
	p.refuses(p.name, "another storm is over")
	since := time.Now()
	if err := storm.Process.Signal(end); err != nil {
		p.t.Fatal(err)
	}
	_ = storm.Wait()
	if took := time.Since(since); took > 10*time.Second {
		p.t.Errorf("after %v the simulator took %v to end", end, took)
	}
	if code := storm.ProcessState.ExitCode(); end == os.Interrupt && code != 2 {
		p.t.Errorf("an interrupted storm ended with %d:\n%s", code, said.String())
	}
	p.becomes(fmt.Sprintf("after %v the fleet is as it was:\n%s", end, before), toxiproxy, func(now string) bool { return now == before })
}

// simulator returns a command of the image's program, to run on this machine.
func (p *project) simulator(args ...string) *exec.Cmd {
	return exec.Command(filepath.Join(p.out, "linux-"+runtime.GOARCH, "simulate", "root", "simulate"), args...)
}

// refuses wants one line that says why a project's fleet is not stormed.
func (p *project) refuses(project, why string, args ...string) {
	p.t.Helper()
	said, err := p.simulator(append([]string{"--quiet", "--compose", project, "--scenario", "storm.yaml", "--report", p.t.TempDir()}, args...)...).
		CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 3 || !strings.Contains(string(said), why) || bytes.Count(said, []byte("\n")) != 1 {
		p.t.Errorf("--compose %s %v: %v, want code 3 and one line with %q:\n%s", project, args, err, why, said)
	}
}

// misfits are storms that do not fit this fleet, and projects without a fleet. They hit nothing.
func (p *project) misfits() {
	p.t.Helper()
	toxiproxy := p.toxiproxy()
	began := func() string {
		return p.must(append([]string{"docker", "inspect", "-f", "{{.Name}} {{.State.StartedAt}}"}, strings.Fields(p.do("ps", "-q"))...)...)
	}
	before := p.state(toxiproxy) + began()
	p.refuses(p.name, `runs without LEASESTORM_TTL_MS=7000, which the storm has`, "--ttl", "7s")
	p.refuses(p.name, `"redis-wipe"`, "--faults", "redis-wipe")
	p.refuses(p.name+"-none", "there is no container of service")
	if now := p.state(toxiproxy) + began(); now != before {
		p.t.Errorf("storms that were refused left\n%s\nand there was\n%s", now, before)
	}

	other := filepath.Join(p.t.TempDir(), "compose.yaml") // of a version that has no proxy yet
	if err := os.WriteFile(other, []byte("version: \"2.4\"\nservices: {redis: {image: \"leasestorm/redis:"+p.tag+"\"}}\n"), 0o600); err != nil {
		p.t.Fatal(err)
	}
	compose := append(p.compose[:len(p.compose)-4:len(p.compose)-4], "-p", p.name+"-other", "-f", other)
	p.must(append(compose, "up", "-d")...)
	p.refuses(p.name+"-other", `there is no container of service "toxiproxy"`)
	p.must(append(compose, "down", "-v", "-t", "1")...)
}

// state returns the fleet's state according to the engine and to toxiproxy at this URL.
func (p *project) state(toxiproxy string) string {
	p.t.Helper()
	services := strings.Split(p.must("docker", "ps", "-a", "--filter", "label=com.docker.compose.project="+p.name,
		"--format", `{{.Label "com.docker.compose.service"}} {{.State}}`), "\n")
	slices.Sort(services)
	left, err := p.left(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	resp, err := http.Get(toxiproxy + "/proxies")
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	proxies, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return strings.Join(services, "\n") + "\n" + left + "\n" + string(proxies)
}

// becomes waits until the fleet has this state.
func (p *project) becomes(what, toxiproxy string, so func(state string) bool) {
	p.t.Helper()
	for end := time.Now().Add(time.Minute); ; {
		state := p.state(toxiproxy)
		if so(state) {
			return
		}
		if time.Now().After(end) {
			p.t.Fatalf("not within a minute: %s:\n%s", what, state)
		}
	}
}

// judge reads the target's output: the fences of a session never fall, and rise with each new owner.
func (p *project) judge(said string) {
	p.t.Helper()
	var d history.Decoder
	last := map[string]history.Event{}
	changes := 0
	for line := range strings.Lines(said) {
		var e history.Event
		if err := d.Decode([]byte(line), &e); err != nil {
			p.t.Fatalf("%q: %v", line, err)
		}
		if e.Kind != history.Arrived {
			continue
		}
		was, known := last[e.Session]
		changed := known && was.Instance != e.Instance
		if changed {
			changes++
		}
		if e.Fence < was.Fence || changed && e.Fence == was.Fence {
			p.t.Errorf("%+v came after %+v", e, was)
		}
		last[e.Session] = e
	}
	if changes == 0 {
		p.t.Error("the target saw no takeover")
	}
}
