// Package container runs programs in containers of the engine of this machine, for storms: it finds the engine, builds or
// pulls images, makes one network for each run, starts, kills, freezes and cuts off containers, and removes everything of
// a run by its label.
//
// Containers are given an environment and never this process's own. Each has an init, so that the program in it is not
// process 1, which would ignore signals that it has no handler for.
package container

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/moby/moby/client"
)

// Errors, each wrapped in a sentence that names the engine, image or container and has the engine's own words.
var (
	// ErrNoEngine: nothing at DOCKER_HOST or the default socket answers as an engine within 2 s.
	ErrNoEngine = errors.New("no container engine")
	// ErrPermission: the engine is there, and this user may not use it.
	ErrPermission = errors.New("no permission to use the container engine")
	// ErrElsewhere: the engine's containers run on another machine or kernel, or their addresses cannot be reached.
	ErrElsewhere = errors.New("container engine of another machine")
	// ErrImage: an image is not there and cannot be pulled or built.
	ErrImage = errors.New("no such image")
	// ErrPlatform: an image is for another platform than the engine's.
	ErrPlatform = errors.New("image for another platform")
	// ErrEngine: the engine refused a request, or ended.
	ErrEngine = errors.New("container engine")
)

// Label is the label of everything that a run makes; its value is the run's.
const Label = "leasestorm.run"

// findWithin bounds the search for an engine.
const findWithin = 2 * time.Second

// Engine is a container engine of this machine. Its methods are safe for concurrent use.
type Engine struct {
	api      *client.Client
	platform string // "linux/amd64"
}

// Find returns the engine at DOCKER_HOST or the default socket. It takes 2 s at most. Errors are ErrNoEngine,
// ErrPermission and ErrElsewhere.
func Find(ctx context.Context) (*Engine, error) {
	ctx, cancel := context.WithTimeout(ctx, findWithin)
	defer cancel()
	api, err := client.New(client.FromEnv)
	if err != nil {
		return nil, fmt.Errorf("%w: %v (environment DOCKER_HOST)", ErrNoEngine, err)
	}
	e := &Engine{api: api}
	if err := e.check(ctx); err != nil {
		_ = api.Close()
		return nil, err
	}
	return e, nil
}

// At returns the engine at host, which Find had found, for a process that outlives the one that did.
func At(host string) (*Engine, error) {
	api, err := client.New(client.FromEnv, client.WithHost(host))
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrNoEngine, host, err)
	}
	return &Engine{api: api}, nil
}

// Environment is what a process in another folder must have of this one's environment for At: how an engine that wants TLS is reached.
// There are no secrets in it.
func Environment() []string {
	env := []string{}
	for _, name := range []string{client.EnvTLSVerify, client.EnvOverrideCertPath, client.EnvOverrideAPIVersion} {
		value := os.Getenv(name)
		if value == "" {
			continue
		}
		if absolute, err := filepath.Abs(value); err == nil && name == client.EnvOverrideCertPath {
			value = absolute
		}
		env = append(env, name+"="+value)
	}
	return env
}

// check asks who answers.
func (e *Engine) check(ctx context.Context) error {
	if why := foreign(e.Host()); why != "" {
		return fmt.Errorf("%w: %s %s; unset DOCKER_HOST to use this machine's own", ErrElsewhere, e.Host(), why)
	}
	info, err := e.api.Info(ctx, client.InfoOptions{})
	if err != nil {
		return e.unreached(err)
	}
	version, err := e.api.ServerVersion(ctx, client.ServerVersionOptions{})
	if err != nil {
		return e.unreached(err)
	}
	if own := kernel(); info.Info.OSType != "linux" || info.Info.KernelVersion != own {
		return fmt.Errorf("%w: %s runs containers on kernel %q, and this program on %q: their addresses, clocks and processes are out of reach",
			ErrElsewhere, e.Host(), info.Info.KernelVersion, own)
	}
	if slices.ContainsFunc(info.Info.SecurityOptions, func(s string) bool { return strings.Contains(s, "rootless") }) {
		return fmt.Errorf("%w: %s is rootless: the addresses of its containers cannot be reached from outside of it", ErrElsewhere, e.Host())
	}
	e.platform = version.Os + "/" + version.Arch
	return nil
}

// foreign says why an engine's address is not one of this machine, or "".
func foreign(host string) string {
	u, err := url.Parse(host)
	if err != nil || u.Scheme == "unix" {
		return ""
	}
	name := u.Hostname()
	if ip := net.ParseIP(name); name == "localhost" || ip != nil && ip.IsLoopback() {
		return ""
	}
	return "is not an engine of this machine, and what runs there has another clock"
}

// unreached says in a sentence why the engine did not answer.
func (e *Engine) unreached(err error) error {
	switch text := err.Error(); {
	case strings.Contains(text, "permission denied"):
		return fmt.Errorf("%w at %s: run as a user who may (a member of the group docker)", ErrPermission, e.Host())
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w at %s: nothing answers within %v; start one, or set DOCKER_HOST", ErrNoEngine, e.Host(), findWithin)
	default:
		return fmt.Errorf("%w at %s: %v; start one, or set DOCKER_HOST", ErrNoEngine, e.Host(), err)
	}
}

// Host returns where the engine is, as DOCKER_HOST says it.
func (e *Engine) Host() string { return e.api.DaemonHost() }

// Close ends the connections to the engine. What was started there stays.
func (e *Engine) Close() error { return e.api.Close() }

// said makes an error of the engine's: its words without the client's.
func said(what string, err error) error {
	return fmt.Errorf("%w: %s: %s", ErrEngine, what, strings.TrimPrefix(err.Error(), "Error response from daemon: "))
}
