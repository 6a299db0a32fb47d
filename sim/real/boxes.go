package real

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/leasestorm/leasestorm/sim/container"
)

// RedisImage is the image of a Redis in a container, unless another is chosen.
const RedisImage = "redis:7.2.4"

// Inside of a container.
const (
	boxData = "/data"
	boxPort = "6379"
)

// boxWithin bounds the removal of a run.
const boxWithin = 20 * time.Second

// ErrLost: a container of the run ended that nobody here ended, of something that says nothing of what ran in it.
var ErrLost = errors.New("container lost")

// boxes are the containers of a run. Redis has a network of its own, which nodes do not reach: they have a proxy each.
type boxes struct {
	engine *container.Engine
	run    string
	lose   func(error) // hears why a container ended that the plan did not end
}

// findBoxes finds an engine. It starts nothing.
func (r *Redis) findBoxes(ctx context.Context) error {
	if r.boxes != nil {
		return nil
	}
	e, err := container.Find(ctx)
	if err != nil {
		return err
	}
	r.boxes = &boxes{engine: e, run: rand.Text(), lose: r.lose}
	return nil
}

// network makes a network of the run, of which the reaper is told before there is anything.
func (r *Redis) network(ctx context.Context, name string) (*container.Network, error) {
	r.reaper.add(reapRun, r.boxes.run)
	return r.boxes.engine.Network(ctx, r.boxes.run, name)
}

// remove removes what the run made. What remains is left to the reaper.
func (b *boxes) remove(r *reaper) error {
	ctx, cancel := context.WithTimeout(context.Background(), boxWithin)
	defer cancel()
	err := b.engine.Remove(ctx, b.run)
	if err == nil {
		r.drop(reapRun, b.run)
	}
	return err
}

// fetchRedis finds an engine and has the image of Redis there.
func (r *Redis) fetchRedis(ctx context.Context, c RedisChoice) error {
	if err := r.findBoxes(ctx); err != nil {
		return err
	}
	return r.boxes.engine.Fetch(ctx, cmp.Or(c.Image, RedisImage), c.Pulling)
}

func (r *Redis) provisionContainer(ctx context.Context, c RedisChoice, dir string) error {
	if err := r.fetchRedis(ctx, c); err != nil {
		return err
	}
	folder, err := r.folder(dir)
	if err != nil {
		return err
	}
	files := filepath.Join(folder, "data")
	if err := os.Mkdir(files, 0o700); err != nil {
		return fmt.Errorf("folder for redis-server: %w", err)
	}
	network, err := r.network(ctx, "redis")
	if err != nil {
		return err
	}
	spec := container.Spec{
		Name: "Redis", Image: cmp.Or(c.Image, RedisImage), Folders: []string{files + ":" + boxData},
		User: strconv.Itoa(os.Getuid()) + ":" + strconv.Itoa(os.Getgid()),
	}
	if spec.Address, err = network.Address(); err != nil {
		return err
	}
	r.server = &server{
		daemon: daemon{lose: r.lose}, binary: "redis-server of " + spec.Image, dir: folder, files: files, data: boxData,
		addr: net.JoinHostPort(spec.Address.String(), boxPort), launch: launchBox(network, spec),
	}
	if err := r.server.start(ctx); err != nil {
		return err
	}
	r.use("redis://" + r.server.addr)
	if err := r.check(ctx); err != nil {
		return err
	}
	if kept, _ := filepath.Glob(filepath.Join(files, "appendonly*")); len(kept) == 0 {
		return fmt.Errorf("%w: what its containers write to %s is not seen here; set TMPDIR to a folder that both share",
			container.ErrNoEngine, files)
	}
	return nil
}

// launchBox starts a redis-server in a new container.
func launchBox(network *container.Network, spec container.Spec) launcher {
	return func(ctx context.Context, args []string, log *os.File) (program, error) {
		own, err := os.OpenFile(log.Name(), os.O_APPEND|os.O_WRONLY, 0) // outlives the caller's
		if err != nil {
			return nil, err
		}
		// Only this machine reaches the network that it is on.
		spec.Command = append(append([]string{"redis-server"}, args...), "--protected-mode", "no")
		b, err := startBox(ctx, network, spec, own, own, func(box) {})
		if err != nil {
			return nil, err
		}
		return b, nil
	}
}

// startBox creates a container and runs it, which ends with its removal.
func startBox(ctx context.Context, network *container.Network, spec container.Spec, stdout, stderr *os.File, then func(box)) (box, error) {
	c, err := network.Create(ctx, spec)
	if err != nil {
		_, _ = stdout.Close(), stderr.Close()
		return box{}, err
	}
	return runBox(c, stdout, stderr, func(b box) {
		then(b)
		_ = c.Remove() // else it is removed by its label
	})
}

// runBox starts a container. Once it has ended, what it wrote to is closed and then called.
func runBox(c *container.Container, stdout, stderr *os.File, then func(box)) (box, error) {
	started, err := c.Start(stdout, stderr)
	if err != nil {
		_, _ = stdout.Close(), stderr.Close()
		return box{}, err
	}
	b := box{started, started.PID()}
	go func() {
		<-b.Exited
		_, _ = stdout.Close(), stderr.Close()
		then(b)
	}()
	return b, nil
}

// odd returns what became of a container, if nobody here asked for it whatever ran in it; else nil. An engine that does not answer says of
// nothing that it is gone.
func odd(what error, name string, e container.Exit) error {
	switch {
	case e.Memory:
		return fmt.Errorf("%w: the kernel killed the container of %s for memory", what, name)
	case e.Err != nil:
		return fmt.Errorf("%w: the engine that runs the container of %s does not answer: %w", ErrLost, name, e.Err)
	case e.Again:
		return fmt.Errorf("%w: the container of %s ended, and its restart policy had it started again", what, name)
	}
	return nil
}

// watch tells of an end that says nothing of the program.
func (b *boxes) watch(p box) {
	if why := odd(ErrLost, p.Name+" ("+p.Image+")", p.Exit); why != nil {
		b.lose(why)
	}
}

// box is a program in a container.
type box struct {
	*container.Running
	pid int
}

func (b box) id() int { return b.pid }

func (b box) begun() time.Time { return b.Started }

func (b box) ended() <-chan struct{} { return b.Exited }

// end returns -1 for an end by a signal, as for a process. The container's init tells it by a code above 128.
func (b box) end() (time.Time, int) {
	if b.Exit.Code > bySignal {
		return b.Exit.When, -1
	}
	return b.Exit.When, b.Exit.Code
}

const bySignal = 128

func gone(err error) error {
	if errors.Is(err, container.ErrEnded) {
		return errGone
	}
	return err
}

func (b box) kill()                      { _ = b.Kill() } // what still runs is removed by its label
func (b box) freeze() error              { return gone(b.Pause()) }
func (b box) ask(s syscall.Signal) error { return gone(b.Signal(s)) }

// thaw lets a container go on, and the program in it that stopped itself.
func (b box) thaw() error { return errors.Join(gone(b.Unpause()), b.ask(syscall.SIGCONT)) }

func (b box) stop(begin func()) {
	begin()
	_ = b.ask(syscall.SIGTERM)
	_ = b.thaw()
}
