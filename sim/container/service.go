package container

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"

	"github.com/moby/moby/client"
)

// Labels that a compose program puts on what it starts.
const (
	projectLabel = "com.docker.compose.project"
	serviceLabel = "com.docker.compose.service"
	onceLabel    = "com.docker.compose.oneoff" // "True": of a command that was run beside the services
)

// Service is a container that a compose program made, and removes. Its methods are safe for concurrent use, but one Start at a time.
type Service struct {
	engine *Engine
	id     string
	Name   string // of the service
	Image  string
}

// Project returns the containers of a compose project, by the names of their services. The error is ErrEngine, also where a service
// has several containers.
func (e *Engine) Project(ctx context.Context, project string) (map[string]*Service, error) {
	list, err := e.api.ContainerList(ctx, client.ContainerListOptions{
		All: true, Filters: make(client.Filters).Add("label", projectLabel+"="+project),
	})
	if err != nil {
		return nil, said("containers of "+project, err)
	}
	all := map[string]*Service{}
	for _, c := range list.Items {
		name := c.Labels[serviceLabel]
		if c.Labels[onceLabel] == "True" {
			continue
		}
		if all[name] != nil {
			return nil, fmt.Errorf("%w: service %q of %q has several containers, and one is expected", ErrEngine, name, project)
		}
		all[name] = &Service{engine: e, id: c.ID, Name: name, Image: c.Image}
	}
	return all, nil
}

// ID returns the engine's name for its container.
func (s *Service) ID() string { return s.id }

// Addresses returns where it is in its networks now, in order; none if it does not run.
func (s *Service) Addresses(ctx context.Context) ([]netip.Addr, error) {
	got, err := s.engine.api.ContainerInspect(ctx, s.id, client.ContainerInspectOptions{})
	if err != nil {
		return nil, said("address of "+s.Name, err)
	}
	var all []netip.Addr
	if got.Container.NetworkSettings != nil {
		for _, n := range got.Container.NetworkSettings.Networks {
			if n.IPAddress.IsValid() {
				all = append(all, n.IPAddress)
			}
		}
	}
	slices.SortFunc(all, netip.Addr.Compare)
	return all, nil
}

// Env returns its environment.
func (s *Service) Env(ctx context.Context) (map[string]string, error) {
	got, err := s.engine.api.ContainerInspect(ctx, s.id, client.ContainerInspectOptions{})
	if err != nil {
		return nil, said("environment of "+s.Name, err)
	}
	env := map[string]string{}
	for _, pair := range got.Container.Config.Env {
		name, value, _ := strings.Cut(pair, "=")
		env[name] = value
	}
	return env, nil
}

// Start starts it, which must not run. What it writes goes to stdout and stderr, which may be nil.
func (s *Service) Start(ctx context.Context, stdout, stderr io.Writer) (*Container, error) {
	c := &Container{engine: s.engine, id: s.id, name: s.Name}
	return c, c.attach(stdout, stderr, func() error { return c.start(ctx) })
}

// Adopt is Start of one that runs: what it writes from now on goes to stdout and stderr.
func (s *Service) Adopt(stdout, stderr io.Writer) (*Container, error) {
	c := &Container{engine: s.engine, id: s.id, name: s.Name}
	return c, c.attach(stdout, stderr, func() error { return nil })
}

// Begin starts it if it does not run, lets it go on if it is frozen, and does not wait for what becomes of it.
func (s *Service) Begin(ctx context.Context) error {
	_, _ = s.engine.api.ContainerUnpause(ctx, s.id, client.ContainerUnpauseOptions{}) // refused if it is not frozen
	if _, err := s.engine.api.ContainerStart(ctx, s.id, client.ContainerStartOptions{}); err != nil {
		return said("start of "+s.Name, err)
	}
	return nil
}

// Stop asks it to end, kills it after its grace, and waits for its end.
func (s *Service) Stop(ctx context.Context) error {
	if _, err := s.engine.api.ContainerStop(ctx, s.id, client.ContainerStopOptions{}); err != nil {
		return said("stop of "+s.Name, err)
	}
	return nil
}
