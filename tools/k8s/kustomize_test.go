package k8s

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

const (
	repository = "../.."
	manifests  = repository + "/docker/k8s"
)

// sources reads docker/k8s into memory, where a test may change it.
func sources(t *testing.T) filesys.FileSystem {
	t.Helper()
	memory := filesys.MakeFsInMemory()
	err := filepath.WalkDir(manifests, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		inside, err := filepath.Rel(manifests, path)
		if err != nil {
			return err
		}
		return memory.WriteFile("/"+filepath.ToSlash(inside), text)
	})
	if err != nil {
		t.Fatal(err)
	}
	return memory
}

// build does what kubectl kustomize does, and returns one document per object.
func build(from filesys.FileSystem, name string) ([][]byte, error) {
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(from, "/"+name)
	if err != nil {
		return nil, err
	}
	var documents [][]byte
	for _, r := range built.Resources() {
		text, err := r.AsYAML()
		if err != nil {
			return nil, err
		}
		documents = append(documents, text)
	}
	return documents, nil
}

// change replaces a text that occurs exactly once.
func change(t *testing.T, in filesys.FileSystem, path, old, new string) {
	t.Helper()
	text, err := in.ReadFile("/" + path)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), old); n != 1 {
		t.Fatalf("%s has %q %d times; a change needs it once", path, old, n)
	}
	if err := in.WriteFile("/"+path, []byte(strings.Replace(string(text), old, new, 1))); err != nil {
		t.Fatal(err)
	}
}
