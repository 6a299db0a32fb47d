package container

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"
)

// Spec says what runs in a container.
type Spec struct {
	Name    string            // of the program, for messages
	Image   string            // must be there
	Command []string          // the program and its arguments, in place of all that the image says; nil: what the image says
	Env     map[string]string // all of it
	Folders map[string]string // folders of this machine, and where the program sees them
	User    string            // "uid:gid"; "": as the image says
	Address netip.Addr        // of the network; zero: any
	Memory  int64             // bytes; 0: no limit
	// Host is the container whose network this one has: its address outlives the programs at it. nil: one of its own.
	Host           *Container
	Stdout, Stderr io.Writer // get what the program writes; nil: nobody
}

// Exit is how a container ended.
type Exit struct {
	When   time.Time
	Code   int   // of the program; 128 + n by signal n; -1 if nobody could be asked
	Memory bool  // the kernel killed it for memory
	Again  bool  // its restart policy had it started again, where nobody hears it: so it was stopped. Its Code may be 0 then, whatever it was
	Err    error // the engine could not be asked any more, or did not stop what was started again
}

// ErrEnded: the container has ended, so that it cannot be signalled.
var ErrEnded = errors.New("container has ended")

// Container is a container that was started. Its methods are safe for concurrent use.
type Container struct {
	engine  *Engine
	id      string
	name    string
	address netip.Addr
	started time.Time
	cancel  context.CancelFunc // ends waiting for it
	exited  chan struct{}
	exit    Exit // once exited is closed

	mu     sync.Mutex
	paused bool
}

// Start makes a container in the network and starts it.
func (n *Network) Start(ctx context.Context, s Spec) (*Container, error) {
	id, err := n.create(ctx, s)
	if err != nil {
		return nil, err
	}
	c := &Container{engine: n.engine, id: id, name: s.Name, address: s.Address}
	if err := c.attach(s.Stdout, s.Stderr, func() error { return c.start(ctx) }); err != nil {
		_, _ = n.engine.api.ContainerRemove(context.WithoutCancel(ctx), id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		return nil, fmt.Errorf("%w (%s)", err, s.Image)
	}
	return c, nil
}

func (c *Container) start(ctx context.Context) error {
	_, err := c.api().ContainerStart(ctx, c.id, client.ContainerStartOptions{})
	return err
}

// Detach gives up a container that goes on without this program.
func (c *Container) Detach() {
	c.cancel()
	<-c.exited
}

// attach listens to what a container writes, starts it, and waits for its end.
func (c *Container) attach(stdout, stderr io.Writer, start func() error) error {
	waiting, cancel := context.WithCancel(context.Background())
	c.cancel, c.exited = cancel, make(chan struct{})
	end := c.api().ContainerWait(waiting, c.id, client.ContainerWaitOptions{Condition: container.WaitConditionNextExit})
	// From before its start, so that nothing is missed.
	out, err := c.api().ContainerAttach(waiting, c.id, client.ContainerAttachOptions{Stream: true, Stdout: true, Stderr: true})
	if err == nil {
		context.AfterFunc(waiting, out.Close)
		c.started = time.Now()
		err = start()
	}
	if err != nil {
		cancel()
		return said("start of "+c.name, err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = stdcopy.StdCopy(or(stdout), or(stderr), out.Reader)
	}()
	go c.wait(end, read)
	return nil
}

func or(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return w
}

// processesMax is how many processes and threads a container may have: more than a thread for each of 10,000 sessions.
const processesMax = 16_384

// create makes the container. No port of it is published, whatever the image exposes: Redis would be open to the world.
func (n *Network) create(ctx context.Context, s Spec) (id string, err error) {
	init := true
	host := &container.HostConfig{
		Init: &init, NetworkMode: container.NetworkMode(n.name), LogConfig: container.LogConfig{Type: "none"},
	}
	host.Memory, host.MemorySwap = s.Memory, s.Memory
	// The image may be anybody's. Raw sockets pass by the firewall that cuts it off; processes without end take the machine down.
	host.SecurityOpt, host.CapDrop, host.PidsLimit = []string{"no-new-privileges"}, []string{"NET_RAW"}, new(int64(processesMax))
	for from, to := range s.Folders {
		host.Mounts = append(host.Mounts, mount.Mount{Type: mount.TypeBind, Source: from, Target: to})
	}
	config := &container.Config{Image: s.Image, User: s.User, Labels: map[string]string{Label: n.run}}
	if len(s.Command) > 0 {
		config.Entrypoint, config.Cmd = s.Command[:1], s.Command[1:]
		config.WorkingDir = "/" // that of the image would be made as root, also in a folder of this machine
	}
	for name, value := range s.Env {
		config.Env = append(config.Env, name+"="+value)
	}
	options := client.ContainerCreateOptions{Config: config, HostConfig: host}
	if s.Host != nil {
		host.NetworkMode = container.NetworkMode("container:" + s.Host.id)
	} else {
		options.NetworkingConfig = &network.NetworkingConfig{
			EndpointsConfig: map[string]*network.EndpointSettings{n.name: n.endpoint(s.Address)},
		}
	}
	made, err := n.engine.api.ContainerCreate(ctx, options)
	if err != nil {
		return "", said("container of "+s.Name, err)
	}
	return made.ID, nil
}

func (n *Network) endpoint(address netip.Addr) *network.EndpointSettings {
	e := &network.EndpointSettings{NetworkID: n.id}
	if address.IsValid() {
		e.IPAMConfig = &network.EndpointIPAMConfig{IPv4Address: address}
	}
	return e
}

// wait waits for the end.
func (c *Container) wait(end client.ContainerWaitResult, read <-chan struct{}) {
	select {
	case r := <-end.Result:
		c.exit = Exit{When: time.Now(), Code: int(r.StatusCode)}
		// Why it was, and what follows, is known when the engine has written down the end.
		ctx, cancel := context.WithTimeout(context.Background(), askWithin)
		got, err := c.api().ContainerInspect(ctx, c.id, client.ContainerInspectOptions{})
		if err == nil && got.Container.State != nil {
			c.exit.Memory, c.exit.Again = got.Container.State.OOMKilled, got.Container.State.Running
		}
		cancel()
		if c.exit.Again {
			c.exit.Err = c.halt()
		}
	case err := <-end.Error:
		c.exit = Exit{When: time.Now(), Code: -1, Err: said("wait for "+c.name, err)}
	}
	select {
	case <-read:
	case <-time.After(askWithin): // the last words of an engine that hangs
	}
	c.cancel()
	<-read
	close(c.exited)
}

// halt stops what its restart policy starts again. An engine in the middle of that start takes a stop for done, and starts it nevertheless:
// so what runs is asked for, too.
func (c *Container) halt() error {
	const tries = 6
	var err error
	for range tries {
		ctx, cancel := context.WithTimeout(context.Background(), askWithin)
		_, err = c.api().ContainerStop(ctx, c.id, client.ContainerStopOptions{Timeout: new(int)})
		var got client.ContainerInspectResult
		if err == nil {
			got, err = c.api().ContainerInspect(ctx, c.id, client.ContainerInspectOptions{})
		}
		cancel()
		switch {
		case gone(err), err == nil && (got.Container.State == nil || !got.Container.State.Running):
			return nil
		case err == nil:
			err = errors.New("it runs again")
		}
	}
	return said("stop of "+c.name, err)
}

// askWithin bounds a question to the engine.
const askWithin = 5 * time.Second

func (c *Container) api() *client.Client { return c.engine.api }

// ID returns the engine's name for it.
func (c *Container) ID() string { return c.id }

// Address returns where it is in the network, as its Spec says.
func (c *Container) Address() netip.Addr { return c.address }

// Started returns when the engine was asked to start it, before the program could do anything.
func (c *Container) Started() time.Time { return c.started }

// Exited is closed when the container has ended and what it wrote has been read.
func (c *Container) Exited() <-chan struct{} { return c.exited }

// Exit returns how it ended; only valid once Exited is closed.
func (c *Container) Exit() Exit { return c.exit }

// PID returns the program's process on this machine: the child of the container's init.
func (c *Container) PID(ctx context.Context) (int, error) {
	got, err := c.api().ContainerInspect(ctx, c.id, client.ContainerInspectOptions{})
	if err != nil {
		return 0, said("process of "+c.name, err)
	}
	init := got.Container.State.Pid
	for init != 0 {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", init))
		if err != nil {
			break
		}
		if fields := strings.Fields(string(text)); len(fields) > 0 {
			return strconv.Atoi(fields[0])
		}
		select { // the init has not started it yet
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-c.exited:
			return 0, fmt.Errorf("%s: %w", c.name, ErrEnded)
		case <-time.After(time.Millisecond):
		}
	}
	return 0, fmt.Errorf("process of %s: %w", c.name, ErrEnded)
}

// Kill ends the program as a crash does, also one that is frozen, and waits for its end.
func (c *Container) Kill(ctx context.Context) error {
	err := c.kill(ctx, "SIGKILL")
	_ = c.Unpause(ctx) // some engines do so themselves, and refuse
	if err != nil && !errors.Is(err, ErrEnded) {
		return err
	}
	return c.await(ctx)
}

func (c *Container) await(ctx context.Context) error {
	select {
	case <-c.exited:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("end of %s: %w", c.name, context.Cause(ctx))
	}
}

// Stop asks the program to end, kills it after the grace, and waits for its end.
func (c *Container) Stop(ctx context.Context, grace time.Duration) error {
	seconds := int((grace + time.Second - 1) / time.Second)
	_, err := c.api().ContainerStop(ctx, c.id, client.ContainerStopOptions{Timeout: &seconds})
	if err != nil && !gone(err) {
		return said("stop of "+c.name, err)
	}
	return c.await(ctx)
}

// Signal sends the program a signal, which the container's init passes on. Those that nobody can pass on are refused:
// Pause and Kill do what they are for.
func (c *Container) Signal(ctx context.Context, s syscall.Signal) error {
	if s == syscall.SIGSTOP || s == syscall.SIGKILL {
		return fmt.Errorf("%w: %s: %v cannot be passed on to the program", ErrEngine, c.name, s)
	}
	return c.kill(ctx, unix.SignalName(s))
}

func (c *Container) kill(ctx context.Context, signal string) error {
	_, err := c.api().ContainerKill(ctx, c.id, client.ContainerKillOptions{Signal: signal})
	if gone(err) {
		return fmt.Errorf("%s: %w", c.name, ErrEnded)
	}
	if err != nil {
		return said(signal+" to "+c.name, err)
	}
	return nil
}

// gone reports whether the engine refused because the container does not run any more.
func gone(err error) bool {
	return err != nil && (errdefs.IsNotFound(err) || strings.Contains(err.Error(), "is not running"))
}

// Pause freezes all that runs in the container; Unpause lets it go on. What is so already stays so.
func (c *Container) Pause(ctx context.Context) error { return c.freeze(ctx, true) }

// Unpause lets a frozen container go on.
func (c *Container) Unpause(ctx context.Context) error { return c.freeze(ctx, false) }

func (c *Container) freeze(ctx context.Context, paused bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.paused == paused {
		return nil
	}
	var err error
	for range 3 { // on a busy machine the kernel does not freeze all of it in the time that a runtime gives it
		if paused {
			_, err = c.api().ContainerPause(ctx, c.id, client.ContainerPauseOptions{})
		} else {
			_, err = c.api().ContainerUnpause(ctx, c.id, client.ContainerUnpauseOptions{})
		}
		if err == nil || gone(err) {
			break
		}
	}
	if gone(err) {
		return fmt.Errorf("%s: %w", c.name, ErrEnded)
	}
	if err != nil {
		return said("freeze or thaw of "+c.name, err)
	}
	c.paused = paused
	return nil
}

// Remove removes the container, whatever it does.
func (c *Container) Remove(ctx context.Context) error {
	_, err := c.api().ContainerRemove(ctx, c.id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	if err != nil && !errdefs.IsNotFound(err) {
		return said("removal of "+c.name, err)
	}
	return nil
}
