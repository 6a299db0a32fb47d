package wasm

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// triedVersions are the Go versions that have built the programs of the tests.
const triedVersions = "go1.25.5 and go1.26.8"

// What is added to package net, and what replaces signal_unix.go of os/signal.
var (
	//go:embed overlay/net.go.txt
	netSource []byte
	//go:embed overlay/signal.go.txt
	signalSource []byte
)

// patch replaces text of a file of the standard library. Each old text must be there once.
type patch struct {
	file string
	// pairs of an old and a new text
	texts []string
}

const (
	socketFunc = "func socket(ctx context.Context, net string, family, sotype, proto int, ipv6only bool, laddr, raddr sockaddr, " +
		"ctrlCtxFn func(context.Context, string, string, syscall.RawConn) error) (*netFD, error) {\n"
	hostsFunc     = "func lookupStaticHost(host string) ([]string, string) {\n"
	hostsFileFunc = "func lookupHostsFile(host string) ([]string, string) {\n"
	waitFunc      = "func signalWaitUntilIdle()\n"
)

var patches = []patch{
	{"net/net_fake.go", []string{socketFunc, socketFunc + "\tif isHost(sotype, raddr) {\n\t\treturn dialHost(ctx, net, laddr, raddr)\n\t}\n"}},
	{"net/hosts.go", []string{hostsFunc, hostsFunc + "\treturn namedAddress(host)\n}\n\n" + hostsFileFunc}},
	// The runtime defines a function of the old name, which waits for a goroutine of the runtime.
	{"os/signal/signal.go", []string{"\tsignalWaitUntilIdle()\n", "\twaitUntilIdle()\n", waitFunc, "func waitUntilIdle() {}\n"}},
	// Errors have the texts of Linux, which programs print and some look for.
	{"net/fd_fake.go", []string{`"fd_read"`, `"read"`, `"fd_write"`, `"write"`}},
	// The name of the machine is an environment variable, as in a container.
	{"syscall/syscall_wasip1.go", []string{
		"\t\treturn \"wasip1\", nil\n",
		"\t\tif name, ok := Getenv(\"HOSTNAME\"); ok {\n\t\t\treturn name, nil\n\t\t}\n\t\treturn \"wasip1\", nil\n",
	}},
	{"syscall/tables_wasip1.go", []string{
		`"Broken pipe"`, `"broken pipe"`,
		`"Connection refused"`, `"connection refused"`,
		`"Connection reset by peer"`, `"connection reset by peer"`,
		`"Connection timed out"`, `"connection timed out"`,
		`"Host is unreachable"`, `"no route to host"`,
		`"Network is unreachable"`, `"network is unreachable"`,
		`"No such file or directory"`, `"no such file or directory"`,
	}},
	{"os/signal/signal_unix.go", []string{"\twatchSignalLoop = loop\n", "\twatchSignalLoop = loop\n"}},
}

// patched returns the changed files of a GOROOT.
func patched(root, version string) (map[string][]byte, error) {
	src := filepath.Join(root, "src")
	out := map[string][]byte{}
	for _, p := range patches {
		path := filepath.Join(src, filepath.FromSlash(p.file))
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		changed, ok := p.apply(string(text))
		if !ok {
			return nil, fmt.Errorf("%s has another %s than expected, so it cannot build for virtual time; %s can", version, p.file, triedVersions)
		}
		out[path] = []byte(changed)
	}
	out[filepath.Join(src, "net", "leasestorm_wasip1.go")] = netSource
	out[filepath.Join(src, "os", "signal", "signal_unix.go")] = signalSource
	return out, nil
}

func (p patch) apply(text string) (string, bool) {
	for i := 0; i < len(p.texts); i += 2 {
		if strings.Count(text, p.texts[i]) != 1 {
			return "", false
		}
		text = strings.Replace(text, p.texts[i], p.texts[i+1], 1)
	}
	return text, true
}
