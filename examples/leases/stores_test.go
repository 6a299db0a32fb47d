package leases

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/leasestorm/leasestorm/internal/redisfixture"
)

const python = "/usr/bin/python3" // Debian's, which has psycopg2

// postgres starts this machine's PostgreSQL, and tells adapters its address.
func postgres(t *testing.T) {
	t.Helper()
	bins, _ := filepath.Glob("/usr/lib/postgresql/*/bin") // Debian has them outside of the path
	t.Setenv("PATH", os.Getenv("PATH")+":"+strings.Join(bins, ":"))
	if _, err := exec.LookPath("initdb"); err != nil || exec.CommandContext(t.Context(), python, "-c", "import psycopg2").Run() != nil {
		t.Skip("not installed: postgresql, python3-psycopg2")
	}
	dir, address := t.TempDir(), free(t)
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { // the server may run as another user
		t.Fatal(err)
	}
	host, port, _ := net.SplitHostPort(address)
	server := exec.Command("sh", "postgres.sh")
	server.Env = append(os.Environ(), "DATA="+dir, "PORT="+port)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Signal(syscall.SIGQUIT)
		_ = server.Wait()
	})
	err := redisfixture.Await(t.Context(), func(ctx context.Context) bool {
		return exec.CommandContext(ctx, "pg_isready", "-h", host, "-p", port).Run() == nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("LEASESTORM_PROXY_POSTGRES", address)
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

// Adapters of PostgreSQL keep their leases to one owner. Under a pause and a partition, only the one with a deadline does. It also does so
// when the server is killed and frozen. The leader of River does not.
func TestPostgresLong(t *testing.T) {
	if testing.Short() {
		t.Skip("builds, downloads, and storms for minutes")
	}
	postgres(t)
	play(t, "", false, python, "pg_advisory.py")
	play(t, "", false, python, "pg_row.py")
	simulate, river := simulator(t), filepath.Join(t.TempDir(), "river")
	build := exec.CommandContext(t.Context(), "go", "build", "-modfile=libraries.mod", "-o", river, "river.go")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for i, c := range []struct {
		adapter, scenario string
		code, kills       int
	}{
		{"pg_advisory.py", "partition", 1, 0}, // two owners: the frozen one cannot notice that its connection ended
		{"--check pg_advisory.py", "partition", 0, 0},
		{"pg_row.py", "partition", 0, 0},
		{"pg_row.py", "outages", 0, 3},
		{"--check " + river, "leader", 1, 5}, // the restarted server has forgotten the leader, who learns of it later
	} {
		t.Run(filepath.Base(c.adapter)+" "+c.scenario, func(t *testing.T) {
			t.Parallel()
			reports, seed := t.TempDir(), strconv.Itoa(i+1) // each draws other sessions
			storm := exec.CommandContext(t.Context(), simulate, "--scenario", "testdata/"+c.scenario+".yaml", "--seed", seed, "--quiet",
				"--report", reports, "--store", "postgres=sh postgres.sh", "--lease-cmd", strings.Replace(c.adapter, "pg_", python+" pg_", 1))
			out, _ := storm.CombinedOutput()
			if code := storm.ProcessState.ExitCode(); code != c.code {
				t.Errorf("exit code %d, want %d: %s", code, c.code, out)
			}
			logs, _ := filepath.Glob(filepath.Join(reports, "*", "logs", "postgres.log"))
			if len(logs) != 1 {
				t.Fatalf("%d logs of the server", len(logs))
			}
			text, err := os.ReadFile(logs[0])
			killed := strings.Count(string(text), "was not properly shut down")
			if err != nil || killed != c.kills {
				t.Errorf("the server was killed %d times (%v), want %d", killed, err, c.kills)
			}
		})
	}
}
