package node

import (
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/leasestorm/leasestorm/internal/redistest"
)

// health runs the command health, and returns its exit code and output.
func health(t *testing.T, env string, args ...string) (int, string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, append([]string{"health"}, args...)...)
	cmd.Env = append(os.Environ(), asNode+"=1", healthVariable+"="+env)
	text, _ := cmd.CombinedOutput()
	return cmd.ProcessState.ExitCode(), string(text)
}

// The command health reports whether a node of any system can acquire leases, and why not.
func TestHealthOfANode(t *testing.T) {
	srv := redistest.Start(t)
	for system, counter := range map[string]string{
		systemPolling:  `leasestorm_instance_health{state="quarantine"}`,
		systemElection: `leasestorm_election_health{election="sovereign:leader",state="quarantine"}`,
	} {
		addr := net.JoinHostPort("127.0.0.1", freePort(t))
		if code, said := health(t, addr); code != exitDirty || !strings.Contains(said, "refused") {
			t.Errorf("%s: before it runs: %d, %s", system, code, said)
		}
		n := startChild(t, []string{
			"LEASESTORM_REDIS_URL=" + srv.URL(), "LEASESTORM_TARGET_URL=http://127.0.0.1:1", "LEASESTORM_SYSTEM=" + system,
			healthVariable + "=" + addr, "LEASESTORM_TTL_MS=3600000", "LEASESTORM_START_DELAY_MS=0",
		})
		n.wait("ready")
		// A new server: nothing is granted for an hour.
		for code, said := health(t, addr); code != exitDirty || !strings.Contains(said, "quarantine"); code, said = health(t, addr) {
			if t.Context().Err() != nil || code == exitWrong {
				t.Fatalf("%s: %d, %s", system, code, said)
			}
		}
		if code, said := get(t, addr, "/healthz"); code != 200 || said != "ok\n" {
			t.Errorf("%s: /healthz %d, %q", system, code, said)
		}
		if code, said := get(t, addr, "/metrics"); code != 200 || !strings.Contains(said, "\n"+counter+" 1\n") ||
			!strings.Contains(said, "\ngo_goroutines ") {
			t.Errorf("%s: /metrics %d, without %s: %s", system, code, counter, said)
		}
		n.signal(15)
		<-n.done
	}
}

func TestHealthNeedsAnAddress(t *testing.T) {
	for _, tt := range []struct {
		env  string
		args []string
		want string
	}{
		{"", nil, "host:port"},
		{"nowhere", nil, `"nowhere"`},
		{"127.0.0.1:1", []string{"--help"}, `"--help"`},
		{"", []string{"a:1", "b:2"}, "unexpected"},
		{"", []string{"a:1/x"}, "host:port"}, {"", []string{"h:0"}, "host:port"}, {"", []string{"u@h:1"}, "host:port"},
	} {
		if code, said := health(t, tt.env, tt.args...); code != exitWrong || !strings.Contains(said, tt.want) ||
			strings.Count(said, "\n") != 1 {
			t.Errorf("%q %q: %d, %s; want one line with %q", tt.env, tt.args, code, said, tt.want)
		}
	}
}
