package leases

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

const python = "/usr/bin/python3" // Debian's, which has psycopg2

// postgres starts this machine's PostgreSQL with the table of pg_row.py, and tells adapters its address, which it returns.
func postgres(t *testing.T) string {
	t.Helper()
	bins, _ := filepath.Glob("/usr/lib/postgresql/*/bin") // Debian has them outside of the path
	t.Setenv("PATH", os.Getenv("PATH")+":"+strings.Join(bins, ":"))
	if _, err := exec.LookPath("initdb"); err != nil || exec.CommandContext(t.Context(), python, "-c", "import psycopg2").Run() != nil {
		t.Skip("not installed: postgresql, python3-psycopg2")
	}
	dir, as := t.TempDir(), &syscall.SysProcAttr{}
	if os.Getuid() == 0 { // as whom the server does not run
		who, err := user.Lookup("postgres")
		if err != nil {
			t.Fatal(err)
		}
		uid, _ := strconv.Atoi(who.Uid)
		gid, _ := strconv.Atoi(who.Gid)
		as.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		if err := errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.Chown(dir, uid, gid)); err != nil {
			t.Fatal(err)
		}
	}
	run := func(argv ...string) {
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Dir, cmd.SysProcAttr = dir, as
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%q: %v: %s", argv, err, out)
		}
	}
	address := free(t)
	host, port, _ := net.SplitHostPort(address)
	run("initdb", "-D", "data", "-A", "trust", "-U", "postgres", "--no-sync")
	run("pg_ctl", "-D", "data", "-w", "-l", "log", "-o", "-k "+dir+" -p "+port, "start")
	t.Cleanup(func() { run("pg_ctl", "-D", "data", "-m", "immediate", "stop") })
	run("psql", "-h", host, "-p", port, "-U", "postgres", "-c",
		"create table lease (key text primary key, owner text, fence bigint, expires timestamptz)")
	t.Setenv("LEASESTORM_PROXY_POSTGRES", address)
	return address
}

// The adapter of etcd keeps its leases to one owner.
func TestEtcdLong(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and downloads")
	}
	program := filepath.Join(t.TempDir(), "etcd")
	build := exec.CommandContext(t.Context(), "go", "build", "-modfile=libraries.mod", "-o", program, "etcd.go")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if _, err := exec.LookPath("etcd"); err != nil {
		t.Skip("not installed: etcd")
	}
	clients, peers := "http://"+free(t), "http://"+free(t)
	server := exec.CommandContext(t.Context(), "etcd", "--data-dir", t.TempDir(), "--log-level", "error", "--unsafe-no-fsync",
		"--listen-client-urls", clients, "--advertise-client-urls", clients,
		"--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", "default="+peers)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Wait() }) // the context of the test kills it
	t.Setenv("LEASESTORM_PROXY_ETCD", strings.TrimPrefix(clients, "http://"))
	play(t, "", false, program)
}

// free returns an address on which nobody listens.
func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	return l.Addr().String()
}

// Adapters of PostgreSQL keep their leases to one owner. Under a pause and a partition, only the one with a deadline does.
func TestPostgresLong(t *testing.T) {
	if testing.Short() {
		t.Skip("storms for half a minute")
	}
	address, simulate := postgres(t), filepath.Join(t.TempDir(), "simulate")
	play(t, "", false, python, "pg_advisory.py")
	play(t, "", false, python, "pg_row.py")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", simulate, "../../cmd/simulate").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	storms := map[string]*exec.Cmd{}
	for i, adapter := range []string{"pg_advisory.py", "--check pg_advisory.py", "pg_row.py"} {
		seed := strconv.Itoa(i + 1) // each draws other sessions
		storm := exec.CommandContext(t.Context(), simulate, "--scenario", "testdata/partition.yaml", "--seed", seed, "--quiet",
			"--report", t.TempDir(), "--proxy", "postgres="+address, "--lease-cmd", strings.Replace(adapter, "pg_", python+" pg_", 1))
		storm.Stdout = &bytes.Buffer{}
		storm.Stderr = storm.Stdout
		if err := storm.Start(); err != nil {
			t.Fatal(err)
		}
		storms[adapter] = storm
	}
	for adapter, storm := range storms {
		want := map[string]int{"pg_advisory.py": 1}[adapter] // two owners: the frozen one cannot notice that its connection ended
		_ = storm.Wait()
		if code := storm.ProcessState.ExitCode(); code != want {
			t.Errorf("%s: exit code %d, want %d: %v", adapter, code, want, fmt.Sprint(storm.Stdout))
		}
	}
}
