package container

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
)

// Container is a container of a run, or of a service of a compose project. Its methods are safe for concurrent use.
type Container struct {
	testcontainers.Container
	Name, Image string // for messages
	engine      *Engine
}

// Spec says what runs in a container.
type Spec struct {
	Name    string   // of the program, for messages
	Image   string   // must exist
	Command []string // the program and its arguments; nil: what the image says
	Env     []string // all of it
	Folder  string   // of this machine, which the program sees at the same path; "": none
	User    string   // "uid:gid"; "": as the image says
	Network bool     // the run's; else it has none
}

// Create makes a container of the run, which the engine removes at its end.
func (e *Engine) Create(ctx context.Context, s Spec) (*Container, error) {
	made, err := e.creator.CreateContainer(ctx, testcontainers.ContainerRequest{
		Image: s.Image, Labels: map[string]string{Label: e.Run},
		ConfigModifier: func(c *container.Config) {
			c.User, c.Env = s.User, s.Env
			if len(s.Command) > 0 {
				c.Entrypoint, c.Cmd = s.Command[:1], s.Command[1:]
			}
		},
		HostConfigModifier: func(h *container.HostConfig) {
			h.Init, h.AutoRemove, h.LogConfig, h.NetworkMode = new(true), true, container.LogConfig{Type: "none"}, "none"
			if s.Network {
				h.NetworkMode = container.NetworkMode(e.network())
			}
			if s.Folder != "" {
				h.Binds = []string{s.Folder + ":" + s.Folder}
			}
		},
	})
	if err != nil {
		return nil, fmt.Errorf("container of %s (%s): %w", s.Name, s.Image, err)
	}
	return &Container{Container: made, Name: s.Name, Image: s.Image, engine: e}, nil
}

// Labels that a compose program puts on what it starts.
const (
	projectLabel = "com.docker.compose.project"
	serviceLabel = "com.docker.compose.service"
	onceLabel    = "com.docker.compose.oneoff" // "True": of a command that was run beside the services
)

// Project returns the containers of a compose project, by the names of their services.
func (e *Engine) Project(ctx context.Context, project string) (map[string]*Container, error) {
	list, err := e.api.ContainerList(ctx, client.ContainerListOptions{
		All: true, Filters: make(client.Filters).Add("label", projectLabel+"="+project, onceLabel+"=False"),
	})
	all := map[string]*Container{}
	for _, c := range list.Items {
		name := c.Labels[serviceLabel]
		found, failed := e.creator.ContainerFromType(ctx, c)
		if failed != nil {
			err = failed
			break
		}
		all[name] = &Container{Container: found, Name: name, Image: c.Image, engine: e}
	}
	if err != nil {
		return nil, fmt.Errorf("containers of %s: %w", project, err)
	}
	return all, nil
}

// Running is a container that runs, or ran.
type Running struct {
	*Container
	Started time.Time // before the program could do anything
	PID     int       // of the program on this machine, the child of the container's init; 0: not known
	Detach  func()    // stops watching a container that goes on without this program
	Exited  chan struct{}

	// Once Exited is closed.
	When time.Time // of its end
	Code int       // of the program; 128 + n by signal n; -1 if the engine does not answer
}

// Start starts the container, unless it runs. What it writes from now on goes to stdout and stderr, which are closed at its end, or on an
// error.
func (c *Container) Start(stdout, stderr io.WriteCloser) (*Running, error) {
	ctx, cancel := context.WithCancel(context.Background())
	r := &Running{Container: c, Detach: cancel, Exited: make(chan struct{})}
	api, id := c.engine.api, c.GetContainerID()
	end := api.ContainerWait(ctx, id, client.ContainerWaitOptions{Condition: container.WaitConditionNextExit})
	// From before its start, so that nothing is missed.
	out, err := api.ContainerAttach(ctx, id, client.ContainerAttachOptions{Stream: true, Stdout: true, Stderr: true})
	if err == nil {
		context.AfterFunc(ctx, out.Close)
		r.Started = time.Now()
		err = c.Container.Start(ctx)
	}
	if err != nil {
		cancel()
		_, _ = stdout.Close(), stderr.Close()
		return nil, fmt.Errorf("container of %s (%s): %w", c.Name, c.Image, err)
	}
	r.findPID(ctx)
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = stdcopy.StdCopy(stdout, stderr, out.Reader)
		_, _ = stdout.Close(), stderr.Close()
	}()
	go func() {
		defer close(r.Exited)
		r.wait(ctx, end)
		<-read
		cancel()
	}()
	return r, nil
}

// findPID waits until the init has started the program.
func (r *Running) findPID(ctx context.Context) {
	s, err := r.Inspect(ctx)
	for err == nil && r.PID == 0 {
		var text []byte
		text, err = os.ReadFile(fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", s.State.Pid))
		if _, missing := fmt.Sscan(string(text), &r.PID); missing != nil {
			time.Sleep(time.Millisecond)
		}
	}
}

// wait waits for the end of the program.
func (r *Running) wait(ctx context.Context, end client.ContainerWaitResult) {
	select {
	case e := <-end.Result:
		r.When, r.Code = time.Now(), int(e.StatusCode)
		if s, err := r.State(ctx); err == nil && (s.Running || s.Restarting) { // nobody hears what that program says
			_ = r.Stop(ctx, nil)
			r.engine.lost(fmt.Errorf("%w: %s (%s) ended, and its restart policy had it started again", ErrLost, r.Name, r.Image))
		}
	case err := <-end.Error:
		r.When, r.Code = time.Now(), -1
		if ctx.Err() == nil {
			r.engine.lost(fmt.Errorf("%w: the engine that runs %s (%s) does not answer: %w", ErrLost, r.Name, r.Image, err))
		}
	}
}

// Kill ends the program as a crash does, also one that is frozen, and waits for its end.
func (r *Running) Kill() {
	_ = r.Signal(syscall.SIGKILL)
	_ = r.Unpause() // some engines do so themselves, and refuse
	<-r.Exited
}

// Signal sends the program a signal, which the container's init passes on. SIGSTOP cannot be passed on: use Pause.
func (c *Container) Signal(s syscall.Signal) error {
	options := client.ContainerKillOptions{Signal: strconv.Itoa(int(s))}
	_, err := c.engine.api.ContainerKill(context.Background(), c.GetContainerID(), options)
	return err
}

// Pause freezes all that runs in the container.
func (c *Container) Pause() (err error) {
	for range 3 { // on a busy machine freezing takes longer than the engine waits for it
		if _, err = c.engine.api.ContainerPause(context.Background(), c.GetContainerID(), client.ContainerPauseOptions{}); err == nil {
			break
		}
	}
	return err
}

// Unpause lets a frozen container go on.
func (c *Container) Unpause() error {
	_, err := c.engine.api.ContainerUnpause(context.Background(), c.GetContainerID(), client.ContainerUnpauseOptions{})
	return err
}
