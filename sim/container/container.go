package container

import (
	"context"
	"errors"
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
	testcontainers.Container // nil for a container of a run that is not created yet
	Spec                     Spec
	engine                   *Engine
}

// Spec describes a container. A service of a project sets only Name and Image.
type Spec struct {
	Name    string   // name of the program in messages
	Image   string   // must exist
	Command []string // program and arguments; nil: those of the image
	Env     []string // the complete environment
	// Folder is a folder of this machine, mounted at the same path. With a folder, the container runs as this user and without a network.
	// Otherwise it runs as the image's user in the run's network.
	Folder string
}

// New returns a container of the run. Start creates it. The engine removes it when it ends.
func (e *Engine) New(s Spec) *Container { return &Container{Spec: s, engine: e} }

func (c *Container) create(ctx context.Context) (err error) {
	s, e := c.Spec, c.engine
	if c.Container != nil {
		return nil
	}
	c.Container, err = e.creator.CreateContainer(ctx, testcontainers.ContainerRequest{
		Image: s.Image, Labels: map[string]string{Label: e.Run},
		ConfigModifier: func(c *container.Config) {
			c.Env = s.Env
			if len(s.Command) > 0 {
				c.Entrypoint, c.Cmd = s.Command[:1], s.Command[1:]
			}
			if s.Folder != "" {
				c.User = fmt.Sprintf("%d:%d", os.Getuid(), os.Getgid())
			}
		},
		HostConfigModifier: func(h *container.HostConfig) {
			h.Init, h.AutoRemove, h.LogConfig = new(true), true, container.LogConfig{Type: "none"}
			h.NetworkMode = container.NetworkMode(e.network())
			if s.Folder != "" {
				h.NetworkMode, h.Binds = "none", []string{s.Folder + ":" + s.Folder}
			}
		},
	})
	return err
}

// Project returns the containers of a compose project by service name.
func (e *Engine) Project(ctx context.Context, project string) (map[string]*Container, error) {
	const label = "com.docker.compose." // oneoff=True marks a one-off command (docker compose run)
	list, err := e.api.ContainerList(ctx, client.ContainerListOptions{
		All: true, Filters: make(client.Filters).Add("label", label+"project="+project, label+"oneoff=False"),
	})
	all := map[string]*Container{}
	for _, c := range list.Items {
		found, failed := e.creator.ContainerFromType(ctx, c)
		err = errors.Join(err, failed)
		s := Spec{Name: c.Labels[label+"service"], Image: c.Image}
		all[s.Name] = &Container{Container: found, Spec: s, engine: e}
	}
	if err != nil {
		return nil, fmt.Errorf("containers of %s: %w", project, err)
	}
	return all, nil
}

// Running is a started container, which may have ended.
type Running struct {
	*Container
	Started time.Time // just before the program could act
	PID     int       // host process ID of the program, the child of the container's init; 0: unknown
	Detach  func()    // stops watching a container, which continues to run
	Exited  chan struct{}

	// Valid once Exited is closed.
	When time.Time
	Code int // exit code; -1: by a signal, or the engine does not answer
}

// Start creates the container if necessary and starts it unless it runs. Its output goes to stdout and stderr, which Start closes at the
// container's end or on an error.
func (c *Container) Start(stdout, stderr io.WriteCloser) (*Running, error) {
	ctx, cancel := context.WithCancel(context.Background())
	r := &Running{Container: c, Detach: cancel, Exited: make(chan struct{})}
	api, end, out := c.engine.api, client.ContainerWaitResult{}, client.ContainerAttachResult{}
	err := c.create(ctx)
	if err == nil { // watch before the start, to miss nothing
		end = api.ContainerWait(ctx, c.GetContainerID(), client.ContainerWaitOptions{Condition: container.WaitConditionNextExit})
		out, err = api.ContainerAttach(ctx, c.GetContainerID(), client.ContainerAttachOptions{Stream: true, Stdout: true, Stderr: true})
	}
	if err == nil {
		context.AfterFunc(ctx, out.Close)
		r.Started = time.Now()
		err = c.Container.Start(ctx)
	}
	if err != nil {
		cancel()
		_, _ = stdout.Close(), stderr.Close()
		return nil, fmt.Errorf("container of %s (%s): %w", c.Spec.Name, c.Spec.Image, err)
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

func (r *Running) wait(ctx context.Context, end client.ContainerWaitResult) {
	select {
	case e := <-end.Result:
		if r.When, r.Code = time.Now(), int(e.StatusCode); r.Code > 128 { // 128+signal, from the init
			r.Code = -1
		}
		if s, err := r.State(ctx); err == nil && (s.Running || s.Restarting) { // a restarted program's output would be lost
			_ = r.Stop(ctx, nil)
			r.engine.lost(fmt.Errorf("container lost: %s (%s) ended, and its restart policy had it started again", r.Spec.Name, r.Spec.Image))
		}
	case err := <-end.Error:
		r.When, r.Code = time.Now(), -1
		if ctx.Err() == nil {
			r.engine.lost(fmt.Errorf("container lost: the engine that runs %s (%s) does not answer: %w", r.Spec.Name, r.Spec.Image, err))
		}
	}
}

// Kill kills the program, even if it is frozen, and waits for its end.
func (r *Running) Kill() {
	_ = r.Signal(syscall.SIGKILL)
	_ = r.Unpause() // an engine that unpauses on a kill refuses this
	<-r.Exited
}

// Signal sends a signal to the container's init, which forwards it to the program. It cannot forward SIGSTOP; use Pause.
func (c *Container) Signal(s syscall.Signal) error {
	options := client.ContainerKillOptions{Signal: strconv.Itoa(int(s))}
	_, err := c.engine.api.ContainerKill(context.Background(), c.GetContainerID(), options)
	return err
}

// Pause freezes all processes in the container.
func (c *Container) Pause() (err error) {
	for range 3 { // on a busy machine, the engine's own timeout may expire
		if _, err = c.engine.api.ContainerPause(context.Background(), c.GetContainerID(), client.ContainerPauseOptions{}); err == nil {
			break
		}
	}
	return err
}

// Unpause thaws a frozen container.
func (c *Container) Unpause() error {
	_, err := c.engine.api.ContainerUnpause(context.Background(), c.GetContainerID(), client.ContainerUnpauseOptions{})
	return err
}
