package container

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/moby/moby/api/types/jsonstream"
	"github.com/moby/moby/client"
)

// ImageLabel is the label of images that Build made; its value is their name. They stay, to be used again:
// "docker image prune -a --filter label=leasestorm.image" removes them.
const ImageLabel = "leasestorm.image"

// Has reports whether the image is there, for this engine's platform; ErrPlatform if it is for another.
func (e *Engine) Has(ctx context.Context, image string) (bool, error) {
	if _, err := reference.ParseNormalizedNamed(image); err != nil {
		return false, fmt.Errorf("%w: %q is not the name of one: %w", ErrImage, image, err)
	}
	got, err := e.api.ImageInspect(ctx, image)
	switch {
	case errdefs.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, said("image "+image, err)
	case got.Os+"/"+got.Architecture != e.platform:
		return true, fmt.Errorf("%w: %s is for %s/%s, and %s runs %s", ErrPlatform, image, got.Os, got.Architecture, e.Host(), e.platform)
	}
	return true, nil
}

// Program returns what an image runs unless told otherwise, without its arguments; "" if it does not say.
func (e *Engine) Program(ctx context.Context, image string) (string, error) {
	got, err := e.api.ImageInspect(ctx, image)
	if err != nil {
		return "", said("image "+image, err)
	}
	if got.Config == nil || len(got.Config.Cmd) == 0 {
		return "", nil
	}
	return got.Config.Cmd[0], nil
}

// Volumes returns the folders for which an image has the engine make volumes.
func (e *Engine) Volumes(ctx context.Context, image string) ([]string, error) {
	got, err := e.api.ImageInspect(ctx, image)
	if err != nil {
		return nil, said("image "+image, err)
	}
	if got.Config == nil {
		return nil, nil
	}
	return slices.Sorted(maps.Keys(got.Config.Volumes)), nil
}

// pullSilence is how long a registry may say nothing.
const pullSilence = 30 * time.Second

// Pull fetches the image for this engine's platform; progress hears of every step, in bytes so far and in all, as far as
// known. Errors are ErrImage and ErrPlatform.
func (e *Engine) Pull(ctx context.Context, image string, progress func(done, total int64)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silent := time.AfterFunc(pullSilence, func() { cancel(fmt.Errorf("the registry said nothing for %v", pullSilence)) })
	defer silent.Stop()
	stream, err := e.api.ImagePull(ctx, image, client.ImagePullOptions{})
	if err != nil {
		return pullFailed(ctx, image, err)
	}
	done, total := map[string]int64{}, map[string]int64{}
	for m, err := range stream.JSONMessages(ctx) {
		silent.Reset(pullSilence)
		if err == nil && m.Error != nil {
			err = m.Error
		}
		if err != nil {
			return pullFailed(ctx, image, err)
		}
		if m.Progress != nil && m.Progress.Total > 0 && m.Status == "Downloading" {
			done[m.ID], total[m.ID] = m.Progress.Current, m.Progress.Total
		}
		progress(sum(done), sum(total))
	}
	if _, err := e.Has(ctx, image); err != nil {
		return err
	}
	return nil
}

func sum(of map[string]int64) (n int64) {
	for _, v := range of {
		n += v
	}
	return n
}

func pullFailed(ctx context.Context, image string, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if strings.Contains(err.Error(), "no matching manifest") {
		return fmt.Errorf("%w: %s: %v", ErrPlatform, image, err)
	}
	return fmt.Errorf("%w: %s is not there and cannot be pulled: %v; name one that is, or load it", ErrImage, image, err)
}

// Build makes an image of a program and the shared libraries that it needs, and nothing else, and returns its reference,
// leasestorm-<name>:<hash of all that is in it>. An image that is there already is taken as it is. Without arguments it
// runs the program.
func (e *Engine) Build(ctx context.Context, name, program string) (string, error) {
	files, err := withLibraries(ctx, program)
	if err != nil {
		return "", err
	}
	context, hash, err := buildContext(files)
	if err != nil {
		return "", fmt.Errorf("%w: build of %s: %w", ErrImage, program, err)
	}
	image := "leasestorm-" + name + ":" + hash
	if there, err := e.Has(ctx, image); there || err != nil {
		return image, err
	}
	answer, err := e.api.ImageBuild(ctx, context, client.ImageBuildOptions{
		Tags: []string{image}, Remove: true, ForceRemove: true, Labels: map[string]string{ImageLabel: name},
	})
	if err != nil {
		return "", said("build of "+image, err)
	}
	defer func() { _ = answer.Body.Close() }()
	for lines := json.NewDecoder(answer.Body); ; {
		var m jsonstream.Message
		switch err := lines.Decode(&m); {
		case errors.Is(err, io.EOF):
			return image, nil
		case err != nil:
			return "", said("build of "+image, err)
		case m.Error != nil:
			return "", said("build of "+image, m.Error)
		}
	}
}

// withLibraries returns the absolute path of a program and those of the shared libraries that the loader would take.
func withLibraries(ctx context.Context, program string) ([]string, error) {
	program, err := filepath.Abs(program)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrImage, program, err)
	}
	files := []string{program}
	if dynamic, err := loaded(program); !dynamic || err != nil {
		return files, err
	}
	out, err := exec.CommandContext(ctx, "ldd", program).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%w: ldd %s: %w: %s", ErrImage, program, err, bytes.TrimSpace(out))
	}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "not found") {
			return nil, fmt.Errorf("%w: %s needs %s", ErrImage, program, strings.TrimSpace(line))
		}
		for _, field := range strings.Fields(line) {
			if filepath.IsAbs(field) {
				files = append(files, field)
			}
		}
	}
	return files, nil
}

// loaded reports whether a program is one that the loader starts, with shared libraries. A script, say, is none.
func loaded(program string) (bool, error) {
	file, err := os.Open(program)
	if err != nil {
		return false, fmt.Errorf("%w: %w", ErrImage, err)
	}
	defer func() { _ = file.Close() }()
	f, err := elf.NewFile(file)
	if err != nil {
		return false, nil // no ELF file at all
	}
	return slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }), nil
}

// buildContext packs files and a Dockerfile, and returns the hash of all.
func buildContext(files []string) (io.Reader, string, error) {
	var packed bytes.Buffer
	out := tar.NewWriter(&packed)
	add := func(name string, mode fs.FileMode, data []byte) error {
		h := &tar.Header{Name: name, Mode: int64(mode.Perm()), Size: int64(len(data)), Typeflag: tar.TypeReg}
		if err := out.WriteHeader(h); err != nil {
			return err
		}
		_, err := out.Write(data)
		return err
	}
	for _, file := range files {
		data, err := os.ReadFile(file) // of what a link leads to
		if err != nil {
			return nil, "", err
		}
		if err := add(path.Join("root", file), 0o755, data); err != nil {
			return nil, "", err
		}
	}
	recipe := fmt.Sprintf("FROM scratch\nCOPY root/ /\nCMD [%q]\n", files[0])
	if err := errors.Join(add("Dockerfile", 0o644, []byte(recipe)), out.Close()); err != nil {
		return nil, "", err
	}
	hash := sha256.Sum256(packed.Bytes())
	return &packed, hex.EncodeToString(hash[:6]), nil
}
