package examples

import (
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/leasestorm/leasestorm/internal/redistest"
	"github.com/leasestorm/leasestorm/lease"
	"github.com/leasestorm/leasestorm/lease/admin"
	"github.com/leasestorm/leasestorm/lease/election"
)

// secured is a Redis with TLS whose only user is one of docs/redis.md.
func secured(t *testing.T, user string) (server *redistest.Server, env []string) {
	t.Helper()
	docs, err := os.ReadFile("../docs/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^ACL SETUSER ` + user + ` .*$`).FindString(string(docs))
	if line == "" {
		t.Fatalf("docs/redis.md has no user %s", user)
	}
	server = redistest.Start(t, redistest.TLS(), redistest.Password("of-the-operator"))
	grant(server, line)
	return server, []string{"REDIS_URL=" + server.UserURL(user, "password"), "SSL_CERT_FILE=" + server.CAFile()}
}

func grant(server *redistest.Server, line string) {
	var words []any
	for _, w := range strings.Fields(line) {
		words = append(words, w)
	}
	server.Do(words...)
}

// TestPollerWithACLAndTLSLong: the poller works with only the rights of docs/redis.md. If it loses a right, its health names it in words of
// docs/redis.md. When the right returns, it continues.
func TestPollerWithACLAndTLSLong(t *testing.T) {
	if testing.Short() {
		t.Skip("real processes")
	}
	server, env := secured(t, "poller")
	if err := admin.Bootstrap(t.Context(), server.Client(), lease.ManagerConfig{}); err != nil {
		t.Fatal(err)
	}
	id := uuid.NewString()
	server.Do("SET", "session:"+id, `{"id":"`+id+`"}`)
	addr := freeAddress(t)
	p := start(t, build(t, "poller"), append(env, "HTTP_ADDR="+addr)...)
	eventually(t, "it polls", func() bool { return p.said("polled", id) > 0 }, p)
	ready := func() bool { code, _ := get("http://" + addr + "/readyz"); return code == http.StatusOK }

	for _, trouble := range []struct {
		name        string
		begin, end  func()
		said, inDoc string
	}{
		{
			"a command is denied", func() { grant(server, "ACL SETUSER poller -eval -evalsha") },
			func() { grant(server, "ACL SETUSER poller +eval +evalsha") }, "+eval +evalsha", "NOPERM",
		},
		{
			"the password is another", func() { grant(server, "ACL SETUSER poller resetpass >new") },
			func() { grant(server, "ACL SETUSER poller >password") }, "WRONGPASS", "WRONGPASS",
		},
		{
			"the certificate has expired", func() { server.Certify(time.Now().Add(-time.Hour)) },
			func() { server.Certify(time.Now().Add(time.Hour)) }, "x509: certificate has expired", "x509: …",
		},
	} {
		trouble.begin()
		server.Do("CLIENT", "KILL", "USER", "poller") // open connections keep their rights
		eventually(t, trouble.name, func() bool {
			_, body := get("http://" + addr + "/readyz")
			return strings.Contains(body, trouble.said)
		}, p)
		if docs, err := os.ReadFile("../docs/redis.md"); err != nil || !strings.Contains(string(docs), "`"+trouble.inDoc+"`") {
			t.Errorf("%s: docs/redis.md does not say what to do of %s: %v", trouble.name, trouble.inDoc, err)
		}
		trouble.end()
		eventually(t, "it is well again after "+trouble.name, ready, p)
	}
	end(t, p)
	if strings.Contains(p.log.String(), "password@") {
		t.Error("it told its password")
	}
}

// TestLeaderWithACLAndTLSLong: the leader works with only the rights of docs/redis.md.
func TestLeaderWithACLAndTLSLong(t *testing.T) {
	if testing.Short() {
		t.Skip("real processes")
	}
	server, env := secured(t, "election")
	if err := admin.Bootstrap(t.Context(), server.Client(), election.Config{}); err != nil {
		t.Fatal(err)
	}
	p := start(t, build(t, "leader"), env...)
	eventually(t, "it leads", func() bool { return p.said("leading") > 0 }, p)
	end(t, p)
}
