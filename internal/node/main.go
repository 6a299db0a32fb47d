// Package node is the reference node: the library and the node protocol. It uses only the public packages of lease.
package node

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/leasestorm/leasestorm/internal/version"
	"github.com/leasestorm/leasestorm/lease"
)

// Main runs a node until it stops, and returns the exit code.
func Main(args []string) int {
	if len(args) > 0 && args[0] == "--version" {
		fmt.Println("node", version.String())
		return exitOK
	}
	redis.SetLogger(&logging.VoidLogger{}) // calls return its errors
	signal.Ignore(syscall.SIGPIPE)         // a node without a reader must still release its leases
	if len(args) > 0 && args[0] == "health" {
		return ended(askHealth(args[1:]))
	}
	if wantsIntents(args, os.Getenv) {
		return ended(intentsMain(args))
	}
	run, args, err := command(args)
	if err != nil {
		return ended(0, err)
	}
	s, err := parse(args, os.Getenv, terminal(os.Stdout))
	if errors.Is(err, errHelp) {
		return exitOK
	}
	if err == nil {
		var code int
		if code, err = run(&s); err == nil {
			return code
		}
	}
	return ended(0, err)
}

// command returns the function that the first arguments select, and the remaining flags.
func command(args []string) (run func(*settings) (int, error), rest []string, err error) {
	switch {
	case len(args) > 0 && args[0] == "bootstrap":
		return func(s *settings) (int, error) { return bootstrap(s, s.fleet()) }, args[1:], nil
	case len(args) > 0 && args[0] == "quarantine":
		length, rest, err := quarantineLength(args[1:])
		return func(s *settings) (int, error) { return setQuarantine(s, s.fleet(), length) }, rest, err
	case len(args) > 0 && args[0] == "replicas":
		n, rest, err := replicasCount(args[1:])
		return func(s *settings) (int, error) {
			s.leases.Replicas = n
			return setReplicas(s, s.fleet())
		}, rest, err
	}
	return serve, args, nil
}

func ended(code int, err error) int {
	if err == nil {
		return code
	}
	complain(err)
	return exitWrong
}

func serve(s *settings) (int, error) {
	target, err := s.target()
	if err != nil {
		return 0, err
	}
	client, err := s.Universal("node", terminal(os.Stderr))
	if err != nil {
		return 0, err
	}
	defer client.Close()
	n := &node{instance: lease.GenerateInstanceID(), target: target, http: httpClient()}
	n.pause.Store(s.pauseNow)
	var signals chan os.Signal
	n.out, signals = speak(n.instance, s.logLevel)
	defer n.out.close()
	var handler http.Handler
	if s.healthAddr != "" {
		n.counters, handler = newMetrics()
	}
	build := n.polling
	if s.system == systemElection {
		build = n.election
	}
	p, err := build(client, s)
	if err != nil {
		return 0, err
	}
	server, err := s.watch(context.Background(), handler, p.Health, nil, make(chan error, 1))
	if err != nil {
		return 0, err
	}
	defer shut(server)
	return n.live(p, signals)
}
