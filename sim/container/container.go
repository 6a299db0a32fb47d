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
	"syscall"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	"golang.org/x/sys/unix"
)

// Container is a container of a run, or the one of a service of a compose project. Its methods are safe for concurrent use, and give an
// engine 15 s each. Where it has ended their error is ErrEnded.
type Container struct {
	Name, Image string // for messages
	ID          string // the engine's name for it
	engine      *Engine
	made        testcontainers.Container // nil: a compose program made it
}

// Exit is how a container ended.
type Exit struct {
	When   time.Time
	Code   int   // of the program; 128 + n by signal n; -1 if nobody could be asked
	Memory bool  // the kernel killed it for memory
	Again  bool  // its restart policy had it started again, where nobody hears it: so it was stopped
	Err    error // the engine could not be asked any more
}

// Running is a container that runs, or ran, from when it was started or adopted.
type Running struct {
	*Container
	Started time.Time     // before the program could do anything
	Exited  chan struct{} // closed when it has ended and what it wrote has been read
	Exit    Exit          // once Exited is closed
	cancel  context.CancelFunc
}

// Start starts it. What it writes goes to stdout and stderr.
func (c *Container) Start(stdout, stderr io.Writer) (*Running, error) {
	return c.attach(stdout, stderr, c.start)
}

// Adopt is Start of one that runs: what it writes from now on goes to stdout.
func (c *Container) Adopt(stdout io.Writer) (*Running, error) {
	return c.attach(stdout, io.Discard, func(context.Context) error { return nil })
}

// attach listens to what a container writes, starts it, and waits for its end.
func (c *Container) attach(stdout, stderr io.Writer, start func(context.Context) error) (*Running, error) {
	waiting, cancel := context.WithCancel(context.Background())
	r := &Running{Container: c, Exited: make(chan struct{}), cancel: cancel}
	end := c.engine.api.ContainerWait(waiting, c.ID, client.ContainerWaitOptions{Condition: container.WaitConditionNextExit})
	// From before its start, so that nothing is missed.
	out, err := c.engine.api.ContainerAttach(waiting, c.ID, client.ContainerAttachOptions{Stream: true, Stdout: true, Stderr: true})
	if err == nil {
		context.AfterFunc(waiting, out.Close)
		r.Started = time.Now()
		err = c.do("start", start)
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("%w (%s)", err, c.Image)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = stdcopy.StdCopy(stdout, stderr, out.Reader)
	}()
	go r.wait(end, read)
	return r, nil
}

// wait waits for the end.
func (r *Running) wait(end client.ContainerWaitResult, read <-chan struct{}) {
	select {
	case e := <-end.Result:
		r.Exit = Exit{When: time.Now(), Code: int(e.StatusCode)}
		// Why it was, and what follows, is known when the engine has written down the end.
		if s, err := r.inspect(); err == nil {
			r.Exit.Memory, r.Exit.Again = s.State.OOMKilled, s.State.Running || s.State.Restarting
		}
		if r.Exit.Again {
			_ = r.Stop()
		}
	case err := <-end.Error:
		r.Exit = Exit{When: time.Now(), Code: -1, Err: said("wait for "+r.Name, err)}
	}
	select {
	case <-read:
	case <-time.After(askWithin): // the last words of an engine that hangs
	}
	r.cancel()
	<-read
	close(r.Exited)
}

// Detach gives up a container that goes on without this program.
func (r *Running) Detach() {
	r.cancel()
	<-r.Exited
}

// Kill ends the program as a crash does, also one that is frozen, and waits for its end.
func (r *Running) Kill() error {
	err := r.Signal(syscall.SIGKILL)
	_ = r.Unpause() // some engines do so themselves, and refuse
	if err != nil && !errors.Is(err, ErrEnded) {
		return err
	}
	select {
	case <-r.Exited:
		return nil
	case <-time.After(askWithin):
		return fmt.Errorf("%w: %s has not ended within %v of its kill", ErrEngine, r.Name, askWithin)
	}
}

// PID returns the program's process on this machine, the child of the container's init; 0 if it has ended.
func (r *Running) PID() int {
	s, err := r.inspect()
	for err == nil {
		var text []byte
		text, err = os.ReadFile(fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", s.State.Pid))
		if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
			return pid
		}
		time.Sleep(time.Millisecond) // the init has not started it yet, or ends
	}
	return 0
}

// Signal sends the program a signal, which the container's init passes on. SIGSTOP cannot be passed on: Pause does what it is for.
func (c *Container) Signal(s syscall.Signal) error {
	name := unix.SignalName(s)
	return c.do(name, func(ctx context.Context) error {
		return failed(c.engine.api.ContainerKill(ctx, c.ID, client.ContainerKillOptions{Signal: name}))
	})
}

// Pause freezes all that runs in the container. What is frozen already stays so.
func (c *Container) Pause() (err error) {
	for range 3 { // on a busy machine the kernel does not freeze all of it in the time that a runtime gives it
		err = c.do("freeze", func(ctx context.Context) error {
			return failed(c.engine.api.ContainerPause(ctx, c.ID, client.ContainerPauseOptions{}))
		})
		if err == nil || errors.Is(err, ErrEnded) {
			break
		}
	}
	return err
}

// Unpause lets a frozen container go on.
func (c *Container) Unpause() error {
	return c.do("thaw", func(ctx context.Context) error {
		return failed(c.engine.api.ContainerUnpause(ctx, c.ID, client.ContainerUnpauseOptions{}))
	})
}

// Begin starts it if it does not run, lets it go on if it is frozen, and does not wait for what becomes of it.
func (c *Container) Begin() error { return errors.Join(c.Unpause(), c.do("start", c.start)) }

func (c *Container) start(ctx context.Context) error {
	if c.made != nil {
		return c.made.Start(ctx)
	}
	return failed(c.engine.api.ContainerStart(ctx, c.ID, client.ContainerStartOptions{}))
}

// Stop asks it to end, kills it after its grace, and waits for its end.
func (c *Container) Stop() error {
	return c.do("stop", func(ctx context.Context) error {
		return failed(c.engine.api.ContainerStop(ctx, c.ID, client.ContainerStopOptions{}))
	})
}

// Remove removes the container, which a run must have made.
func (c *Container) Remove() error {
	return c.do("removal", func(ctx context.Context) error { return c.made.Terminate(ctx, testcontainers.StopTimeout(0)) })
}

// failed drops what an engine answers where it does not refuse: nothing.
func failed[T any](_ T, err error) error { return err }

func (c *Container) do(what string, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), askWithin)
	defer cancel()
	err := ask(ctx)
	switch {
	case err == nil || strings.Contains(err.Error(), "is already paused") || strings.Contains(err.Error(), "is not paused"):
		return nil
	case errdefs.IsNotFound(err) || strings.Contains(err.Error(), "is not running"):
		return fmt.Errorf("%s: %w", c.Name, ErrEnded)
	}
	return said(what+" of "+c.Name, err)
}

func (c *Container) inspect() (container.InspectResponse, error) {
	ctx, cancel := context.WithTimeout(context.Background(), askWithin)
	defer cancel()
	got, err := c.engine.api.ContainerInspect(ctx, c.ID, client.ContainerInspectOptions{})
	if err != nil {
		return got.Container, said("look at "+c.Name, err)
	}
	return got.Container, nil
}

// Labels that a compose program puts on what it starts.
const (
	projectLabel = "com.docker.compose.project"
	serviceLabel = "com.docker.compose.service"
	onceLabel    = "com.docker.compose.oneoff" // "True": of a command that was run beside the services
)

// Project returns the containers of a compose project, by the names of their services. The error is ErrEngine, also where a service
// has several containers.
func (e *Engine) Project(ctx context.Context, project string) (map[string]*Container, error) {
	list, err := e.api.ContainerList(ctx, client.ContainerListOptions{
		All: true, Filters: make(client.Filters).Add("label", projectLabel+"="+project),
	})
	if err != nil {
		return nil, said("containers of "+project, err)
	}
	all := map[string]*Container{}
	for _, c := range list.Items {
		name := c.Labels[serviceLabel]
		switch {
		case c.Labels[onceLabel] == "True":
		case all[name] != nil:
			return nil, fmt.Errorf("%w: service %q of %q has several containers, and one is expected", ErrEngine, name, project)
		default:
			all[name] = &Container{engine: e, ID: c.ID, Name: name, Image: c.Image}
		}
	}
	return all, nil
}

// Look returns the addresses of its networks, of which there is none if it does not run, and its environment.
func (c *Container) Look() (addresses []netip.Addr, env map[string]string, err error) {
	s, err := c.inspect()
	if err != nil {
		return nil, nil, err
	}
	for _, n := range s.NetworkSettings.Networks {
		if n.IPAddress.IsValid() {
			addresses = append(addresses, n.IPAddress)
		}
	}
	env = map[string]string{}
	for _, pair := range s.Config.Env {
		name, value, _ := strings.Cut(pair, "=")
		env[name] = value
	}
	return addresses, env, nil
}
