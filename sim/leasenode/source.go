//go:build !wasip1

package leasenode

import (
	"context"
	"embed"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

//go:embed adapter.go node.go process_wasip1.go settings.go term.go
var sources embed.FS

// MainFile is the file in Overlay that belongs to the adapter's package main.
const MainFile = "leasestorm_node.go"

// Overlay returns the files for go build -overlay, by absolute path, that turn a Go adapter into a node for wasip1, where a program has
// no child processes. The adapter is a directory of a module, or a .go file there. Its function main runs beside the node, and reads the
// node's requests from os.Stdin. LEASESTORM_LEASE_OPTIONS has the node's options. An error means that there is no module.
func Overlay(ctx context.Context, adapter string) (map[string][]byte, error) {
	dir, err := filepath.Abs(adapter)
	if err != nil {
		return nil, err
	}
	if strings.HasSuffix(dir, ".go") {
		dir = filepath.Dir(dir)
	}
	list := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Path}}\n{{.Dir}}")
	list.Dir = dir
	list.Env = append(list.Environ(), "GOWORK=off")
	out, err := list.CombinedOutput()
	module, root, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if err != nil {
		return nil, fmt.Errorf("go list -m: %w: %s", err, out)
	}
	if root == "" {
		return nil, fmt.Errorf("%s is in no Go module", dir)
	}
	const name = "leasestorm_node"
	files := map[string][]byte{
		filepath.Join(dir, MainFile): fmt.Appendf(nil, "package main\n\nimport _ %q\n", module+"/"+name),
	}
	entries, _ := sources.ReadDir(".") // they are embedded
	for _, e := range entries {
		text, _ := sources.ReadFile(e.Name())
		// The constraint is also the version of the language, which the module's may precede.
		files[filepath.Join(root, name, e.Name())] = append([]byte("//go:build go1.25\n\n"), text...)
	}
	return files, nil
}
