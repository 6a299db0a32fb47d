package container

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"
)

// A request that was under way when its sender died is still carried out: what it makes appears after the first look.
const (
	lookAgain = 200 * time.Millisecond
	looks     = 3 // in a row that find nothing
)

// RemoveAt is Remove on the engine at host, for a process that outlives the one that started the run: what that one asked
// for at its end is waited for.
func RemoveAt(ctx context.Context, host, run string) error {
	e, err := At(host)
	if err != nil {
		return err
	}
	defer func() { _ = e.Close() }()
	for empty := 0; empty < looks; {
		n, err := e.remove(ctx, run)
		if err == nil && n == 0 {
			empty++
		} else {
			empty = 0
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-time.After(lookAgain):
		}
	}
	return nil
}

// Remove removes every container, network and volume of the run, whatever it is doing.
func (e *Engine) Remove(ctx context.Context, run string) error {
	for {
		n, err := e.remove(ctx, run)
		if err == nil && n == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("containers of the run remain (docker ps -a --filter label=%s=%s): %w", Label, run,
				errors.Join(err, ctx.Err()))
		case <-time.After(lookAgain):
		}
	}
}

// things are what a run made and is still there.
type things struct {
	containers client.ContainerListResult
	networks   client.NetworkListResult
	volumes    client.VolumeListResult
}

func (t things) count() int {
	return len(t.containers.Items) + len(t.networks.Items) + len(t.volumes.Items)
}

func (e *Engine) list(ctx context.Context, run string) (t things, err error) {
	ours := make(client.Filters).Add("label", Label+"="+run)
	if t.containers, err = e.api.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: ours}); err != nil {
		return t, err
	}
	if t.networks, err = e.api.NetworkList(ctx, client.NetworkListOptions{Filters: ours}); err != nil {
		return t, err
	}
	t.volumes, err = e.api.VolumeList(ctx, client.VolumeListOptions{Filters: ours})
	return t, err
}

// Left returns how many containers, networks and volumes of the run there are.
func (e *Engine) Left(ctx context.Context, run string) (int, error) {
	t, err := e.list(ctx, run)
	if err != nil {
		return 0, said("list of what the run left", err)
	}
	return t.count(), nil
}

// remove removes what there is, and returns how much it found.
func (e *Engine) remove(ctx context.Context, run string) (found int, err error) {
	t, err := e.list(ctx, run)
	if err != nil {
		return 0, err
	}
	var wrong []error
	fail := func(err error) {
		if !errdefs.IsNotFound(err) {
			wrong = append(wrong, err)
		}
	}
	for _, c := range t.containers.Items {
		_, err := e.api.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		fail(err)
	}
	for _, n := range t.networks.Items {
		_, err := e.api.NetworkRemove(ctx, n.ID, client.NetworkRemoveOptions{})
		fail(err)
	}
	for _, v := range t.volumes.Items {
		_, err := e.api.VolumeRemove(ctx, v.Name, client.VolumeRemoveOptions{Force: true})
		fail(err)
	}
	return t.count(), errors.Join(wrong...)
}
