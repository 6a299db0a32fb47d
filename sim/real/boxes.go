package real

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/leasestorm/leasestorm/internal/plain"
	"github.com/leasestorm/leasestorm/sim/container"
)

// RedisImage is the image of a Redis in a container, unless another is chosen.
const RedisImage = "redis:7.2.4"

// Inside of a container.
const (
	boxData = "/data"
	boxPort = "6379"
)

// boxWithin bounds what an engine does at once: a start, a kill, a freeze, the removal of a run.
const boxWithin = 10 * time.Second

// ErrLost: a container of the run ended that nobody here ended, of something that says nothing of what ran in it.
var ErrLost = errors.New("container lost")

// boxes are the containers of a run.
type boxes struct {
	engine  *container.Engine
	run     string
	network *container.Network // nil before open
	lose    func(error)        // hears why a container ended that the plan did not end
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

// fetch has an image there.
func (b *boxes) fetch(ctx context.Context, image string, pulling func(done, total int64)) error {
	there, err := b.engine.Has(ctx, image)
	if there || err != nil {
		return err
	}
	if pulling == nil {
		pulling = func(int64, int64) {}
	}
	return b.engine.Pull(ctx, image, pulling)
}

// open makes the run's network, unless there is one.
func (b *boxes) open(ctx context.Context, r *reaper) (err error) {
	if b.network == nil {
		r.add(reapRun, b.engine.Host()+" "+b.run) // before there is anything
		b.network, err = b.engine.Network(ctx, b.run)
	}
	return err
}

// remove removes what the run made. What remains is left to the reaper.
func (b *boxes) remove(r *reaper) error {
	ctx, cancel := context.WithTimeout(context.Background(), boxWithin)
	defer cancel()
	err := b.engine.Remove(ctx, b.run)
	if err == nil {
		r.drop(reapRun, b.engine.Host()+" "+b.run)
	}
	return err
}

// fetchRedis finds an engine and has the image of Redis there.
func (r *Redis) fetchRedis(ctx context.Context, c RedisChoice) error {
	if err := r.findBoxes(ctx); err != nil {
		return err
	}
	return r.boxes.fetch(ctx, cmp.Or(c.Image, RedisImage), c.Pulling)
}

func (r *Redis) provisionContainer(ctx context.Context, c RedisChoice, dir string) error {
	if err := r.fetchRedis(ctx, c); err != nil {
		return err
	}
	folder, err := r.folder(dir)
	if err != nil {
		return err
	}
	if err := r.boxes.open(ctx, r.reaper); err != nil {
		return err
	}
	address, err := r.boxes.network.Address()
	if err != nil {
		return err
	}
	files := filepath.Join(folder, "data")
	if err := os.Mkdir(files, 0o700); err != nil {
		return fmt.Errorf("folder for redis-server: %w", err)
	}
	image := cmp.Or(c.Image, RedisImage)
	binary, err := r.boxes.binary(ctx, image)
	if err != nil {
		return err
	}
	r.server = &server{
		daemon: daemon{lose: r.lose},
		binary: binary + " of " + image, dir: folder, files: files, data: boxData, addr: net.JoinHostPort(address.String(), boxPort),
		launch: r.boxes.launcher(container.Spec{
			Name: "Redis", Image: image, Address: address, Folders: map[string]string{files: boxData},
			Command: []string{binary}, User: strconv.Itoa(os.Getuid()) + ":" + strconv.Itoa(os.Getgid()),
		}),
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
			container.ErrElsewhere, files)
	}
	return nil
}

// errVolume: the engine would make that folder as root, also where a link of the image leads into the folder of Redis' data, from which
// this user could not remove it.
var errVolume = errors.New("image of Redis with a volume")

// binary is what the image calls its server.
func (b *boxes) binary(ctx context.Context, image string) (string, error) {
	volumes, err := b.engine.Volumes(ctx, image)
	if err != nil {
		return "", err
	}
	for _, volume := range volumes {
		if path.Clean(volume) != boxData {
			return "", fmt.Errorf("%w: %s has one at %s: build one that has none, but at %s", errVolume, image, plain.Name(volume), boxData)
		}
	}
	name, err := b.engine.Program(ctx, image)
	if err == nil && !strings.HasSuffix(path.Base(name), "-server") { // a script that does more
		name = "redis-server"
	}
	return name, err
}

// launcher starts the server of its in a new container.
func (b *boxes) launcher(its container.Spec) launcher {
	return func(ctx context.Context, args []string, log *os.File) (program, error) {
		own, err := os.OpenFile(log.Name(), os.O_APPEND|os.O_WRONLY, 0) // outlives the caller's
		if err != nil {
			return nil, err
		}
		s := its
		s.Stdout, s.Stderr = own, own
		// Only this machine reaches the network that it is on.
		s.Command = append(append(its.Command[:1:1], args...), "--protected-mode", "no")
		c, err := b.network.Start(ctx, s)
		if err != nil {
			_ = own.Close()
			return nil, err
		}
		go func() {
			<-c.Exited()
			_ = own.Close()
		}()
		return box{Container: c}, nil
	}
}

// watch tells of an end that says nothing of the program.
func (b *boxes) watch(s container.Spec, e container.Exit) {
	if why := odd(ErrLost, s.Name+" ("+s.Image+")", e); why != nil {
		b.lose(why)
	}
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

// box is a program in a container.
type box struct {
	*container.Container
	pid int
}

func (b box) id() int { return b.pid }

func (b box) begun() time.Time { return b.Started() }

func (b box) ended() <-chan struct{} { return b.Exited() }

// end returns -1 for an end by a signal, as for a process. The container's init tells it by a code above 128.
func (b box) end() (time.Time, int) {
	e := b.Exit()
	if e.Code > bySignal {
		return e.When, -1
	}
	return e.When, e.Code
}

const bySignal = 128

func (b box) do(what func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), boxWithin)
	defer cancel()
	err := what(ctx)
	if errors.Is(err, container.ErrEnded) {
		return errGone
	}
	return err
}

func (b box) kill()         { _ = b.do(b.Kill) } // what still runs is removed by its label
func (b box) freeze() error { return b.do(b.Pause) }

// thaw lets a container go on, and the program in it that stopped itself.
func (b box) thaw() error {
	return errors.Join(b.do(b.Unpause), b.ask(syscall.SIGCONT))
}

func (b box) stop(begin func()) {
	begin()
	_ = b.ask(syscall.SIGTERM)
	_ = b.thaw()
}

func (b box) ask(s syscall.Signal) error {
	return b.do(func(ctx context.Context) error { return b.Signal(ctx, s) })
}
