package real

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/internal/redistest"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/real/host"
	"github.com/leasestorm/leasestorm/sim/real/proxy"
)

// A machine without ports for a node's connection is not the node's fault.
func TestAMachineWithoutPortsIsNoNodesFault(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	nowhere := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)}} // no address of this machine, which is the same error
	dials := 0
	starved, stop, ended := make(chan error, 9), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		watchPorts(func() (net.Conn, error) {
			if dials++; dials < 3 {
				return net.Dial("tcp", l.Addr().String())
			}
			return nowhere.Dial("tcp", l.Addr().String())
		}, func(err error) { starved <- err }, stop)
	}()
	told := <-starved
	close(stop)
	<-ended
	if !errors.Is(told, host.ErrNoVerdict) || !strings.Contains(told.Error(), "no port left") || dials < 3 {
		t.Errorf("after %d dials: %v", dials, told)
	}
}

func TestAStarvedRunHasNoVerdict(t *testing.T) {
	r := provision(t)
	cfg := config(t, fault.Fault{At: 100 * time.Millisecond, Kind: fault.Cut, Target: "node-1", For: 300 * time.Millisecond})
	cfg.Storm = time.Minute
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	restore := func() error { return syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit) }
	t.Cleanup(func() {
		if err := restore(); err != nil {
			t.Error(err)
		}
	})
	cfg.Progress = func(p Progress) {
		if p.Phase == "storm" {
			if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 3, Max: limit.Max}); err != nil {
				t.Error(err)
			}
		}
	}
	if _, err := Run(t.Context(), r, cfg, history.NewRecorder()); !errors.Is(err, host.ErrNoVerdict) {
		t.Errorf("a run without files ends with %v", err)
	}
}

// A process that reports a second ID would count as another instance, which no guarantee binds.
func TestAProcessHasOneInstanceID(t *testing.T) {
	cfg := config(t)
	cfg.Storm, cfg.NodeEnv = time.Minute, append(cfg.NodeEnv, "REAL_TEST_NODE=names itself anew")
	_, err := Run(t.Context(), provision(t), cfg, history.NewRecorder())
	if !errors.Is(err, host.ErrNoVerdict) || !strings.Contains(err.Error(), "-other") {
		t.Errorf("a run of such nodes ends with %v", err)
	}
}

// A process that returns under the ID of a killed one would count as that instance, which no guarantee binds any more.
func TestAnInstanceIDIsOfOneProcess(t *testing.T) {
	cfg := config(t, fault.Fault{At: 100 * time.Millisecond, Kind: fault.Crash, Target: "node-1", For: 100 * time.Millisecond})
	for mode, id := range map[string]string{"is its slot": "node-1", "is its host": "host"} {
		c := cfg
		c.Storm, c.NodeEnv = time.Minute, append(slices.Clone(cfg.NodeEnv), "REAL_TEST_NODE="+mode)
		_, err := Run(t.Context(), provision(t), c, history.NewRecorder())
		if !errors.Is(err, host.ErrNoVerdict) || !strings.Contains(err.Error(), "as "+strconv.Quote(id)+", which was one that has ended") {
			t.Errorf("%s: a run of such nodes ends with %v", mode, err)
		}
	}
}

// A pause with a stamp before its request would excuse the polls in between.
func TestNoPauseBeginsBeforeItWasAskedFor(t *testing.T) { // G2
	at := 300 * time.Millisecond
	cfg := config(t, fault.Fault{At: at, Kind: fault.CheckSend, Target: "node-1"})
	cfg.Nodes, cfg.Storm, cfg.NodeEnv = 1, 2*time.Second, append(cfg.NodeEnv, "REAL_TEST_NODE=has always been paused")
	_, events := storm(t, provision(t), cfg)
	phase, pause := int64(0), int64(0)
	for _, e := range events {
		switch {
		case e.Kind == history.Phase && e.Reason == "storm":
			phase = e.T
		case e.Kind == history.FaultStart:
			pause = e.T
		}
	}
	if pause == 0 || pause < phase+int64(at) {
		t.Errorf("the pause begins %v after the storm began, and was asked for at %v", time.Duration(pause-phase), at)
	}
}

// If a node dropped output, the history is incomplete.
func TestARunOfWhichANodeDroppedLinesHasNoVerdict(t *testing.T) {
	r := provision(t)
	for _, tt := range []struct {
		mode        string
		storm       time.Duration
		interrupted bool
	}{
		{"drops", time.Minute, false},
		{"drops its last words", 100 * time.Millisecond, false},
		{"drops its last words", time.Minute, true}, // otherwise with a verdict
	} {
		cfg := config(t)
		cfg.Storm = tt.storm
		cfg.NodeEnv = append(cfg.NodeEnv, "REAL_TEST_NODE="+tt.mode)
		ctx, cancel := context.WithCancel(t.Context())
		cfg.Progress = func(p Progress) {
			if p.Phase == "storm" && tt.interrupted {
				cancel()
			}
		}
		began := time.Now()
		_, err := Run(ctx, r, cfg, history.NewRecorder())
		cancel()
		if !errors.Is(err, host.ErrNoVerdict) || !regexp.MustCompile(`node-[12] dropped 7 lines`).MatchString(err.Error()) {
			t.Errorf("%+v: a run of such nodes ends with %v", tt, err)
		}
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("%+v: it went on for %v", tt, took)
		}
	}
}

// If other clients have taken Redis' connections, a refused node is not at fault.
func TestARedisWithoutRoomHasNoVerdict(t *testing.T) {
	server := redistest.Start(t)
	server.Do("CONFIG", "SET", "maxclients", "1")
	told := make(chan error, 10)
	l, err := proxy.New("node-1", loopback, server.Addr(), 1, 1, func(err error) { told <- err })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	for range 3 {
		// A refused client may be reset before it has connected or written.
		if c, err := net.Dial("tcp", l.Addr()); err == nil {
			t.Cleanup(func() { _ = c.Close() })
			_, _ = c.Write([]byte("PING\r\n"))
		}
	}
	select {
	case err := <-told:
		if !errors.Is(err, host.ErrNoVerdict) || !strings.Contains(err.Error(), "maxclients") {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Error("nobody was told")
	}
}

// A Redis that cannot write its file refuses all writes, which is not the nodes' fault.
func TestARedisOnAFullDiskHasNoVerdict(t *testing.T) {
	r := provision(t)
	cfg := config(t)
	cfg.Storm = 10 * time.Second
	ctx, own := t.Context(), r.client.Load()
	// A rewrite of Redis 7 next writes to this file, here on a full disk.
	next := filepath.Join(r.server.dir, "appendonlydir", "temp-appendonly.aof.incr")
	if err := errors.Join(own.ConfigSet(ctx, "appendonly", "no").Err(), os.Symlink("/dev/full", next)); err != nil {
		t.Skip(err)
	}
	told := false
	cfg.Progress = func(p Progress) {
		if p.Phase == "storm" && !told {
			told = true
			if err := own.ConfigSet(ctx, "appendonly", "yes").Err(); err != nil {
				t.Error(err)
			}
		}
	}
	_, err := Run(ctx, r, cfg, history.NewRecorder())
	if !errors.Is(err, host.ErrNoVerdict) || !strings.Contains(err.Error(), "TMPDIR") {
		t.Errorf("a run whose Redis cannot write ends with %v", err)
	}
}

// If Redis begins to refuse a command that every run needs, the history so far is judged.
func TestARedisThatBeginsToRefuseEndsTheRun(t *testing.T) {
	if _, err := findServer(); err != nil {
		t.Skip(err)
	}
	for _, command := range []string{"eval", "scan", "info"} {
		server := redistest.Start(t)
		r := provisionChoice(t, RedisChoice{Kind: "url", URL: "redis://" + server.Addr()})
		cfg, denied := config(t), false
		cfg.Storm = time.Minute
		cfg.Progress = func(p Progress) {
			if p.Phase == "storm" && !denied {
				denied = true
				server.Do("ACL", "SETUSER", "default", "-"+command)
			}
		}
		out, _ := storm(t, r, cfg)
		server.Do("ACL", "SETUSER", "default", "+"+command)
		if !out.Interrupted || strings.Count(strings.Join(out.Notes, "\n"), "'"+command+"'") != 1 {
			t.Errorf("-%s: %+v", command, out)
		}
	}
}
