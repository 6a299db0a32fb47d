// Package container runs programs in containers of the engine of this machine, for storms. testcontainers-go builds images, creates and
// starts containers and removes them; a pause, a kill and the wait for an end go through the client of the engine that it uses itself.
//
// Containers are given an environment and never this process's own. Each has an init, so that the program in it is not
// process 1, which would ignore signals that it has no handler for.
package container

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/log"
)

// Errors, each wrapped in a sentence that names the engine, image or container and has the engine's own words.
var (
	// ErrNoEngine: nothing at DOCKER_HOST or the default socket answers this user as an engine of this machine within 2 s.
	ErrNoEngine = errors.New("no container engine")
	// ErrImage: an image is not there and cannot be pulled or built.
	ErrImage = errors.New("no such image")
	// ErrEngine: the engine refused a request, or ended.
	ErrEngine = errors.New("container engine")
	// ErrEnded: the container has ended, so that it cannot be signalled.
	ErrEnded = errors.New("container has ended")
)

// Labels of all containers and networks of a run, with the run as their value, and of images that Build made, which stay.
const (
	Label      = "leasestorm.run"
	imageLabel = "leasestorm.image"
)

const (
	findWithin = 2 * time.Second
	askWithin  = 15 * time.Second // bounds what an engine does at once: a start, a kill, a pause, a stop with its grace of 10 s
)

// Engine is the container engine of this machine. Its methods are safe for concurrent use.
type Engine struct {
	api     *client.Client
	creator *testcontainers.DockerProvider
}

// Find returns the engine at DOCKER_HOST or the default socket. The error is ErrNoEngine.
func Find(ctx context.Context) (*Engine, error) {
	ctx, cancel := context.WithTimeout(ctx, findWithin)
	defer cancel()
	api, err := client.New(client.FromEnv)
	if err != nil {
		return nil, fmt.Errorf("%w: %w (environment DOCKER_HOST)", ErrNoEngine, err)
	}
	e := &Engine{api: api}
	if _, err = api.Ping(ctx, client.PingOptions{}); err == nil {
		_ = os.Setenv("TESTCONTAINERS_RYUK_DISABLED", "true") // it would be pulled, to remove what the caller removes by its label
		log.SetDefault(log.NewNoopLogger())
		e.creator, err = testcontainers.NewDockerProvider(testcontainers.WithLogger(log.NewNoopLogger()))
	}
	if err != nil {
		_ = api.Close()
		return nil, fmt.Errorf("%w at %s: %w; start one that this user may use (group docker), or set DOCKER_HOST", ErrNoEngine,
			api.DaemonHost(), err)
	}
	e.creator.SetClient(api)
	return e, nil
}

// Close ends the connections to the engine. What was started there stays.
func (e *Engine) Close() error { return e.api.Close() }

// said is an error of the engine in its own words.
func said(what string, err error) error {
	return fmt.Errorf("%w: %s: %s", ErrEngine, what, strings.ReplaceAll(err.Error(), "Error response from daemon: ", ""))
}

// Fetch has an image there: one that is not is pulled, which pulling hears of unless it is nil.
func (e *Engine) Fetch(ctx context.Context, image string, pulling func(image string)) error {
	_, err := e.api.ImageInspect(ctx, image)
	if errdefs.IsNotFound(err) {
		if pulling != nil {
			pulling(image)
		}
		err = e.creator.PullImage(ctx, image)
	}
	if err != nil {
		return fmt.Errorf("%w: %s is not there and cannot be pulled: %w; name one that is, or load it", ErrImage, image, err)
	}
	return nil
}

// Build makes an image of a program and the shared libraries that it needs, and nothing else, and returns its reference,
// leasestorm-<name>:<hash of all that is in it>. An image that is there already is taken as it is.
func (e *Engine) Build(ctx context.Context, name, program string) (string, error) {
	program, err := filepath.Abs(program)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrImage, err)
	}
	var packed bytes.Buffer
	out := tar.NewWriter(&packed)
	add := func(name string, data []byte, err error) error {
		h := &tar.Header{Name: name, Mode: 0o755, Size: int64(len(data)), Typeflag: tar.TypeReg}
		err = errors.Join(err, out.WriteHeader(h))
		_, failed := out.Write(data)
		return errors.Join(err, failed)
	}
	err = add("Dockerfile", fmt.Appendf(nil, "FROM scratch\nLABEL %s=%s\nCOPY root/ /\nCMD [%q]\n", imageLabel, name, program), nil)
	for _, file := range append([]string{program}, libraries(ctx, program)...) {
		data, failed := os.ReadFile(file) // of what a link leads to
		err = errors.Join(err, add(path.Join("root", file), data, failed))
	}
	if err := errors.Join(err, out.Close()); err != nil {
		return "", fmt.Errorf("%w: build of %s: %w", ErrImage, program, err)
	}
	image := testcontainers.FromDockerfile{
		ContextArchive: bytes.NewReader(packed.Bytes()), Repo: "leasestorm-" + name, KeepImage: true,
		Tag: fmt.Sprintf("%.6x", sha256.Sum256(packed.Bytes())),
	}
	ref := image.Repo + ":" + image.Tag
	if _, err = e.api.ImageInspect(ctx, ref); errdefs.IsNotFound(err) {
		_, err = e.creator.BuildImage(ctx, &testcontainers.ContainerRequest{FromDockerfile: image})
	}
	if err != nil {
		return "", said("build of "+ref, err)
	}
	return ref, nil
}

// libraries are those that the loader would take for a program. Of one that needs none ldd says that it fails.
func libraries(ctx context.Context, program string) (files []string) {
	listed, _ := exec.CommandContext(ctx, "ldd", program).Output()
	for _, field := range strings.Fields(string(listed)) {
		if filepath.IsAbs(field) {
			files = append(files, field)
		}
	}
	return files
}

// The engine still carries out a request whose sender has died: what it makes appears after the first look.
const (
	lookAgain = 200 * time.Millisecond
	looks     = 3 // in a row that find nothing
)

// Remove removes every container and network of the run, whatever it is doing.
func (e *Engine) Remove(ctx context.Context, run string) error {
	for empty := 0; empty < looks; {
		n, err := e.remove(ctx, run)
		if empty++; err != nil || n > 0 {
			empty = 0
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("containers of the run remain (docker ps -a --filter label=%s=%s): %w", Label, run, errors.Join(err, ctx.Err()))
		case <-time.After(lookAgain):
		}
	}
	return nil
}

// remove removes what there is, and returns how much it found.
func (e *Engine) remove(ctx context.Context, run string) (found int, err error) {
	ours := make(client.Filters).Add("label", Label+"="+run)
	containers, err := e.api.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: ours})
	for _, c := range containers.Items {
		_, failed := e.api.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		err = errors.Join(err, failed)
	}
	networks, failed := e.api.NetworkList(ctx, client.NetworkListOptions{Filters: ours})
	err = errors.Join(err, failed)
	for _, n := range networks.Items {
		_, failed := e.api.NetworkRemove(ctx, n.ID, client.NetworkRemoveOptions{})
		err = errors.Join(err, failed)
	}
	return len(containers.Items) + len(networks.Items), err
}
