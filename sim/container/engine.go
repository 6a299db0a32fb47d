// Package container runs programs of storms in containers of this machine's engine. testcontainers-go builds and pulls images, and
// creates, starts and stops containers. Pauses, kills and waits use the engine's client directly.
//
// A container never gets this process's environment. Each has an init, because process 1 would ignore signals without a handler.
package container

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/log"
)

var (
	// ErrNoEngine: no container engine at DOCKER_HOST or the default socket answers this user within 2 s.
	ErrNoEngine = errors.New("no container engine")
	// ErrImage: an image is missing and cannot be pulled or built.
	ErrImage = errors.New("no such image")
)

// Label marks every container and network of a run. Its value is Engine.Run.
const Label = "leasestorm.run"

const (
	findWithin   = 2 * time.Second
	removeWithin = 20 * time.Second
	lookAgain    = 200 * time.Millisecond
)

// Engine is this machine's container engine, with the containers of one run. Its methods are safe for concurrent use.
type Engine struct {
	Run     string // value of Label
	lost    func(error)
	api     *client.Client
	creator *testcontainers.DockerProvider
}

// Find returns the engine at DOCKER_HOST or the default socket, or ErrNoEngine. It calls lost when the engine stops answering, or when a
// restart policy restarts a container. lost must not block.
func Find(ctx context.Context, lost func(error)) (*Engine, error) {
	ctx, cancel := context.WithTimeout(ctx, findWithin)
	defer cancel()
	api, err := client.New(client.FromEnv)
	if err != nil {
		return nil, fmt.Errorf("%w: %w (environment DOCKER_HOST)", ErrNoEngine, err)
	}
	e := &Engine{Run: rand.Text(), lost: lost, api: api}
	if _, err = api.Ping(ctx, client.PingOptions{}); err == nil {
		_ = os.Setenv("TESTCONTAINERS_RYUK_DISABLED", "true") // not needed: the caller removes containers by label
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

// Close closes the connections to the engine. Containers, networks and images remain.
func (e *Engine) Close() error { return e.api.Close() }

// Fetch pulls an image if it is missing. It calls pulling, unless nil, before it pulls.
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

// Build makes an image that runs a program as nobody, with its shared libraries. It returns the reference leasestorm-run:<hash of the
// content>. It reuses an existing image. Images stay, with the label leasestorm.image.
func (e *Engine) Build(ctx context.Context, program string) (string, error) {
	program, err := filepath.Abs(program)
	var packed bytes.Buffer
	out := tar.NewWriter(&packed)
	// ldd lists the libraries. It fails for a program without any.
	listed, _ := exec.CommandContext(ctx, "ldd", program).Output()
	for _, file := range append([]string{program}, strings.Fields(string(listed))...) {
		if filepath.IsAbs(file) {
			data, failed := os.ReadFile(file)
			err = errors.Join(err, failed, out.WriteHeader(&tar.Header{Name: file, Mode: 0o755, Size: int64(len(data))}))
			_, _ = out.Write(data) // a buffer: cannot fail
		}
	}
	ref := fmt.Sprintf("leasestorm-run:%.6x", sha256.Sum256(packed.Bytes()))
	if err = errors.Join(err, out.Close()); err == nil {
		_, err = e.api.ImageInspect(ctx, ref)
	}
	if errdefs.IsNotFound(err) {
		source := client.ImageImportSource{Source: &packed, SourceName: "-"}
		settings := []string{"LABEL leasestorm.image=", "USER 65534:65534", fmt.Sprintf("CMD [%q]", program)}
		var said io.ReadCloser
		if said, err = e.api.ImageImport(ctx, source, ref, client.ImageImportOptions{Changes: settings}); err == nil {
			_, err = io.Copy(io.Discard, said)
			_ = said.Close()
		}
	}
	if err != nil {
		return "", fmt.Errorf("%w: build of %s: %w", ErrImage, program, err)
	}
	return ref, nil
}

// Network creates the run's internal network and returns this machine's address in it. Containers in the network reach only each other
// and that address.
func (e *Engine) Network(ctx context.Context) (gateway netip.Addr, err error) {
	options := client.NetworkCreateOptions{Driver: "bridge", Internal: true, Labels: map[string]string{Label: e.Run}}
	_, err = e.api.NetworkCreate(ctx, e.network(), options)
	got, failed := e.api.NetworkInspect(ctx, e.network(), client.NetworkInspectOptions{})
	if err = cmp.Or(err, failed); err != nil {
		return gateway, fmt.Errorf("network %s: %w", e.network(), err)
	}
	gateway = got.Network.IPAM.Config[0].Gateway
	// If the engine runs in a virtual machine, its networks are inside it.
	l, err := net.Listen("tcp", netip.AddrPortFrom(gateway, 0).String())
	if err != nil {
		return gateway, fmt.Errorf("%w at %s: the gateway of its networks is no address here (%w)", ErrNoEngine, e.api.DaemonHost(), err)
	}
	return gateway, l.Close()
}

func (e *Engine) network() string { return "leasestorm-" + e.Run }

// Remove removes the containers and networks of the run. It stops after three successful passes, because the engine may still execute a
// dead process's request.
func (e *Engine) Remove() error {
	ctx, cancel := context.WithTimeout(context.Background(), removeWithin)
	defer cancel()
	ours := make(client.Filters).Add("label", Label+"="+e.Run)
	for good := 0; good < 3; {
		containers, err := e.api.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: ours})
		for _, c := range containers.Items {
			_, failed := e.api.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
			err = errors.Join(err, failed)
		}
		_, failed := e.api.NetworkPrune(ctx, client.NetworkPruneOptions{Filters: ours})
		if err = errors.Join(err, failed); err == nil {
			good++
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("containers of the run remain (docker ps -a --filter label=%s=%s): %w", Label, e.Run, errors.Join(err, ctx.Err()))
		case <-time.After(lookAgain):
		}
	}
	return nil
}
