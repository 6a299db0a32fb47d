package node

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap/zapcore"
	"golang.org/x/sys/unix"

	"github.com/leasestorm/leasestorm/internal/redisflags"
	"github.com/leasestorm/leasestorm/internal/redistest"
	"github.com/leasestorm/leasestorm/internal/version"
	"github.com/leasestorm/leasestorm/lease"
	"github.com/leasestorm/leasestorm/lease/admin"
	"github.com/leasestorm/leasestorm/lease/poll"
)

// TestMain turns the test binary into the node if asNode is set.
const asNode = "LEASESTORM_TEST_AS_NODE"

func TestMain(m *testing.M) {
	if os.Getenv(asNode) != "" {
		os.Exit(Main(os.Args[1:]))
	}
	goleak.VerifyTestMain(m)
}

func TestSettings(t *testing.T) {
	env := map[string]string{
		"LEASESTORM_REDIS_URL": "redis://h:1", "LEASESTORM_TTL_MS": "3000", "LEASESTORM_POLL_MS": "500",
		"LEASESTORM_RENEW_MS": "1000", "LEASESTORM_LOG": "warn", "LEASESTORM_RENEW_LOG": "debug", "LEASESTORM_PAUSE": "check-send",
	}
	s, err := parse([]string{"--poll", "250ms", "--target=http://h:2"}, func(k string) string { return env[k] }, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if s.leases.TTL != 3*time.Second || s.leases.RenewInterval != time.Second || s.polls.Interval != 250*time.Millisecond || !s.pauseNow ||
		s.URL != "redis://h:1" || s.targetURL != "http://h:2" || s.logLevel != zapcore.WarnLevel ||
		*s.lease().RenewLogLevel != zapcore.DebugLevel {
		t.Errorf("%+v", s)
	}
}

func TestWrongSettingsAreNamed(t *testing.T) {
	for _, tt := range []struct {
		args []string
		env  string
		want string
	}{
		{nil, "", "LEASESTORM_REDIS_URL"},
		{[]string{"--redis=redis://h", "--bogus"}, "", "bogus"},
		{[]string{"--redis=redis://h", "serve"}, "", `"serve"`},
		{[]string{"--redis=redis://h", "--ttl=x"}, "", "ttl"},
		{[]string{"--redis=redis://h", "--log=loud"}, "", "LEASESTORM_LOG"},
		{[]string{"--redis=redis://h", "--renew-log=loud"}, "", "LEASESTORM_RENEW_LOG"},
		{[]string{"--redis=redis://h", "--pause=now"}, "", "LEASESTORM_PAUSE"},
		{[]string{"--redis=redis://h", "--system=queue"}, "", "LEASESTORM_SYSTEM"},
		{[]string{"--redis=redis://h", "--start-delay=soon"}, "", "LEASESTORM_START_DELAY_MS"},
		{[]string{"--redis=redis://h"}, "LEASESTORM_START_DELAY_MS=-1", "LEASESTORM_START_DELAY_MS"},
		{[]string{"--redis=redis://h", "--long-polls=maybe"}, "", "LEASESTORM_LONG_POLLS"},
		{[]string{"--redis=redis://h", "--long-polls"}, "", "LEASESTORM_POLL_TIMEOUT_MS"},
		{[]string{"--redis=redis://h"}, "LEASESTORM_TTL_MS=-1", "LEASESTORM_TTL_MS"},
		{[]string{"--redis=redis://h"}, "LEASESTORM_POLL_MS=1s", "LEASESTORM_POLL_MS"},
		{[]string{"--redis=redis://h"}, "LEASESTORM_POLL_MS=0", "LEASESTORM_POLL_MS"},
		{[]string{"--redis=redis://h", "--system=election", "--poll=0s"}, "", "LEASESTORM_POLL_MS (--poll)"},
		{[]string{"--redis=redis://h", "--poll=1ns"}, "", "LEASESTORM_POLL_MS (--poll)"},
		{[]string{"--redis=redis://h", "--ttl=0s"}, "", "LEASESTORM_TTL_MS (--ttl)"},
		{[]string{"--redis=redis://h", "--poll-timeout=-1s"}, "", "LEASESTORM_POLL_TIMEOUT_MS (--poll-timeout)"},
		{[]string{"--redis=redis://h", "--drain=25h"}, "", "LEASESTORM_DRAIN_MS (--drain)"},
		{[]string{"--redis=redis://h"}, "LEASESTORM_RENEW_MS=99999999999", "LEASESTORM_RENEW_MS"},
		{[]string{"--redis=redis://h"}, "LEASESTORM_HEARTBEAT_MS=5000", "LEASESTORM_HEARTBEAT_MS"},
		{[]string{"--redis=redis://h", "--sentinels=127.0.0.1", "--master-name=m"}, "", "LEASESTORM_SENTINELS"},
		{[]string{"--redis=redis://h", "--sentinels=127.0.0.1:", "--master-name=m"}, "", "LEASESTORM_SENTINELS"},
		{[]string{"--redis=redis://h", "--sentinels=127.0.0.1:1"}, "", "LEASESTORM_MASTER_NAME"},
		{[]string{"--redis=redis://h", "--cluster=127.0.0.1"}, "", "LEASESTORM_CLUSTER"},
		{[]string{"--redis=redis://h", "--sentinels=127.0.0.1:1", "--master-name=m"}, "LEASESTORM_CLUSTER=127.0.0.1:1", "leave one of them out"},
		{[]string{"--redis=redis://h", "--cluster=127.0.0.1:1"}, "LEASESTORM_WAYS=127.0.0.1:1", "LEASESTORM_WAYS"},
		{[]string{"--redis=redis://h", "--sentinels=127.0.0.1:1", "--master-name=m"}, "LEASESTORM_WAYS=127.0.0.1:1", "LEASESTORM_WAYS"},
		{[]string{"--redis=redis://h", "--sentinels=127.0.0.1:1", "--master-name=m"}, "LEASESTORM_WAYS=h:1=127.0.0.1:2", "LEASESTORM_WAYS"},
	} {
		getenv := func(k string) string {
			if name, value, _ := strings.Cut(tt.env, "="); k == name {
				return value
			}
			return ""
		}
		if _, err := parse(tt.args, getenv, io.Discard); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v %s: %v; want an error that names %s", tt.args, tt.env, err, tt.want)
		}
	}
	for _, u := range []string{"", "x", "ftp://h", "http://"} {
		s := settings{targetURL: u}
		if _, err := s.target(); err == nil {
			t.Errorf("target %q accepted", u)
		}
	}
}

// A lease event's name in the protocol is that of its log entry, because the judge compares them.
func TestWordsAreNamesOfEntries(t *testing.T) {
	for _, k := range []lease.EventKind{lease.EventAcquireFailed, lease.EventAcquired, lease.EventRenewed, lease.EventUncertain,
		lease.EventLost, lease.EventReleased} {
		e := lease.Event{Kind: k, Name: "s", Fence: 7, Reason: "held"}
		if l, ok := leaseLine(&e); !ok || l.event != k.String() || l.session != "s" || l.fence != 7 || l.reason != "held" {
			t.Errorf("%v: %+v", k, l)
		}
	}
}

// The protocol has a repeated failure only if the log has it, because the judge compares their numbers.
func TestRepeatedFailuresAreSaidAsTheyAreLogged(t *testing.T) {
	for terse, want := range map[bool]int{false: 2, true: 1} {
		var w bytes.Buffer
		o := newOutput(&w, clock{base: time.Now()}, "i", func(err error) { t.Error(err) })
		o.terse = terse
		o.notify(lease.Event{Kind: lease.EventAcquireFailed, Name: "s"})
		o.notify(lease.Event{Kind: lease.EventAcquireFailed, Name: "s", Repeated: true})
		o.close()
		if n := strings.Count(w.String(), "acquireFailed"); n != want {
			t.Errorf("terse %v: said %d times", terse, n)
		}
	}
}

func TestHelpTeaches(t *testing.T) {
	var out bytes.Buffer
	for _, args := range [][]string{{"--help"}, {"--system=intents", "--help"}} {
		if _, err := parse(args, func(string) string { return "" }, full{}); err == nil || errors.Is(err, errHelp) {
			t.Errorf("%q on a full disk: %v", args, err)
		}
	}
	if _, err := parse([]string{"--help"}, func(string) string { return "" }, &out); !errors.Is(err, errHelp) {
		t.Fatal(err)
	}
	for _, want := range []string{"bootstrap", "LEASESTORM_REDIS_URL", "--ttl", "SIGTERM", "X-Fence"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("--help does not mention %s", want)
		}
	}
}

// --version needs neither settings nor a Redis.
func TestVersion(t *testing.T) {
	cmd := exec.Command(os.Args[0], "--version")
	cmd.Env = append(os.Environ(), asNode+"=1", redisflags.URLVariable+"=")
	out, err := cmd.CombinedOutput()
	if want := "node " + version.String() + "\n"; err != nil || string(out) != want {
		t.Errorf("%q, %v; want %q", out, err, want)
	}
}

func TestClockIsMonotonic(t *testing.T) {
	c := newClock()
	var before, after unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &before); err != nil {
		t.Fatal(err)
	}
	now := c.ns(time.Now())
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &after); err != nil {
		t.Fatal(err)
	}
	const slack = int64(10 * time.Microsecond)
	if now < before.Nano()-slack || now > after.Nano()+slack {
		t.Errorf("%d is not between %d and %d", now, before.Nano(), after.Nano())
	}
}

func TestFencedOffIsReported(t *testing.T) {
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.URL.Path != "/poll/s" || r.Header.Get("X-Instance") != "i" {
			t.Errorf("%s %s by %q", r.Method, r.URL.Path, r.Header.Get("X-Instance"))
		}
		if r.Header.Get("X-Fence") == "1" {
			w.WriteHeader(http.StatusConflict)
		}
	}))
	defer target.Close()
	s := settings{targetURL: target.URL}
	u, err := s.target()
	if err != nil {
		t.Fatal(err)
	}
	n := &node{instance: "i", target: u, http: httpClient()}
	defer n.http.CloseIdleConnections()
	if err := n.send(t.Context(), poll.Session{ID: "s", Fence: 1}); !errors.Is(err, errFenced) {
		t.Errorf("409 gave %v", err)
	}
	if err := n.send(t.Context(), poll.Session{ID: "s", Fence: 2}); err != nil {
		t.Error(err)
	}
}

// child is a node in a process of its own.
type child struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines chan map[string]any
	done  chan struct{}
	err   error
	log   bytes.Buffer
}

func startChild(t *testing.T, env []string, args ...string) *child {
	t.Helper()
	return startChildTo(t, nil, env, args...)
}

// startChildTo starts a node that logs to a file, or to child.log if log is nil.
func startChildTo(t *testing.T, log *os.File, env []string, args ...string) *child {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := &child{t: t, cmd: exec.Command(exe, args...), lines: make(chan map[string]any, 10_000), done: make(chan struct{})}
	c.cmd.Env = append(append(os.Environ(), asNode+"=1"), env...)
	c.cmd.Stderr = &c.log
	if log != nil {
		c.cmd.Stderr = log
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(c.done)
		defer close(c.lines)
		for sc := bufio.NewScanner(out); sc.Scan(); {
			var l map[string]any
			if err := json.Unmarshal(sc.Bytes(), &l); err != nil {
				t.Errorf("line %q: %v", sc.Text(), err)
			}
			c.lines <- l
		}
		c.err = c.cmd.Wait()
	}()
	t.Cleanup(func() { _ = c.cmd.Process.Kill(); <-c.done })
	return c
}

// wait returns the next line with that event.
func (c *child) wait(event string) map[string]any {
	c.t.Helper()
	timeout := time.After(20 * time.Second)
	for {
		select {
		case l, ok := <-c.lines:
			if !ok {
				c.t.Fatalf("ended before %q; log:\n%s", event, c.log.String())
			}
			if l["event"] == event {
				return l
			}
		case <-timeout:
			c.t.Fatalf("no %q within 20 s", event)
		}
	}
}

func (c *child) signal(s syscall.Signal) {
	c.t.Helper()
	if err := c.cmd.Process.Signal(s); err != nil {
		c.t.Fatal(err)
	}
}

const session = "0190a8c2-8f5e-4c2a-9d7e-3b1f6a2c4d5e"

func TestNodePollsPausesAndStops(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	if err := admin.Bootstrap(t.Context(), client, lease.ManagerConfig{Config: lease.Config{TTL: time.Second}}); err != nil {
		t.Fatal(err)
	}
	client.Set(t.Context(), "session:"+session, fmt.Sprintf(`{"id":%q,"isPaused":false}`, session), 0)
	arrived := make(chan string, 1000)
	target := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		arrived <- r.Header.Get("X-Fence")
	}))
	defer target.Close()
	c := startChild(t, []string{"LEASESTORM_REDIS_URL=" + server.URL(), "LEASESTORM_TARGET_URL=" + target.URL,
		"LEASESTORM_NODE=node-1", "LEASESTORM_TTL_MS=1000", "LEASESTORM_POLL_MS=100", "LEASESTORM_LOG=debug"})
	c.wait("ready")
	got := c.wait("acquired")
	if got["session"] != session || got["until"].(float64)-got["t"].(float64) > 1e9 {
		t.Errorf("acquired: %v", got)
	}
	started := c.wait("pollStart")
	if started["fence"] != got["fence"] || started["t"].(float64) < got["t"].(float64) {
		t.Errorf("pollStart %v after acquired %v", started, got)
	}
	c.wait("pollEnd")
	c.wait("renewStart")
	c.wait("renewed")

	c.signal(syscall.SIGUSR1)
	c.wait("paused")
	stopped := waitStopped(t, c.cmd.Process.Pid)
	if !stopped {
		t.Fatal("the process did not stop itself")
	}
	for len(arrived) > 0 {
		<-arrived
	}
	c.signal(syscall.SIGCONT)
	<-arrived // the late send
	c.signal(syscall.SIGTERM)
	c.wait("released")
	c.wait("stopped")
	<-c.done
	if c.err != nil {
		t.Errorf("exit: %v\n%s", c.err, c.log.String())
	}
	for _, want := range []string{`"event":"acquired"`, `"endpoint":"` + session, `"node":"node-1"`, `"event":"renewed"`} {
		if !strings.Contains(c.log.String(), want) {
			t.Errorf("the log lacks %s", want)
		}
	}
}

// waitStopped waits until the process is in state T.
func waitStopped(t *testing.T, pid int) bool {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for range 2000 {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			t.Fatal(err)
		}
		if _, rest, _ := strings.Cut(string(stat), ") "); strings.HasPrefix(rest, "T") {
			return true
		}
		<-tick.C
	}
	return false
}

func TestNodeRefusesWithOneLine(t *testing.T) {
	none := []string{"LEASESTORM_REDIS_URL=", "LEASESTORM_TARGET_URL="}
	for _, args := range [][]string{
		{},
		{"--redis=redis://127.0.0.1:1"},
		{"--redis=redis://127.0.0.1:1", "--target=http://127.0.0.1:1", "--renew=1m"},
		{"--redis=redis://127.0.0.1:1", "--target=http://127.0.0.1:1", "--poll-timeout=1m"},
		{"bootstrap", "--redis=redis://127.0.0.1:1"},
	} {
		c := startChild(t, none, args...)
		<-c.done
		if code := c.cmd.ProcessState.ExitCode(); code != exitWrong {
			t.Errorf("%v: exit %d, want %d", args, code, exitWrong)
		}
		if text := c.log.String(); strings.Count(text, "\n") != 1 || !strings.HasPrefix(text, "node: ") {
			t.Errorf("%v said %q, want one line", args, text)
		}
	}
}

func TestBootstrapOnce(t *testing.T) {
	server := redistest.Start(t)
	env := []string{"LEASESTORM_REDIS_URL=" + server.URL()}
	c := startChild(t, env, "bootstrap")
	<-c.done
	if c.err != nil || !strings.Contains(c.log.String(), "the quarantine is 30s") {
		t.Fatalf("%v: %s, want the length of the quarantine", c.err, c.log.String())
	}
	server.Client().Set(t.Context(), "poll:lease:x", "somebody", time.Minute)
	c = startChild(t, env, "bootstrap")
	<-c.done
	if code := c.cmd.ProcessState.ExitCode(); code != exitWrong {
		t.Errorf("bootstrap over a living lease: exit %d: %s", code, c.log.String())
	}
}

// full is a full disk.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }
