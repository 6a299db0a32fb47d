package container

import (
	"context"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

// Kernel is what an engine of this machine says.
var Kernel = kernel

// Compose makes a container as a compose program does, of the run, and does not start it. It is started again whenever it ends by itself.
func (e *Engine) Compose(ctx context.Context, run, project, service, image string, once bool, env []string, command ...string) error {
	labels := map[string]string{Label: run, projectLabel: project, serviceLabel: service, onceLabel: "False"}
	if once {
		labels[onceLabel] = "True"
	}
	_, err := e.api.ContainerCreate(ctx, client.ContainerCreateOptions{
		Config:     &container.Config{Image: image, Entrypoint: command, Env: env, Labels: labels},
		HostConfig: &container.HostConfig{RestartPolicy: container.RestartPolicy{Name: container.RestartPolicyUnlessStopped}},
	})
	return err
}

// Discard removes an image.
func (e *Engine) Discard(ctx context.Context, image string) error {
	_, err := e.api.ImageRemove(ctx, image, client.ImageRemoveOptions{Force: true, PruneChildren: true})
	if errdefs.IsNotFound(err) {
		return nil
	}
	return err
}
