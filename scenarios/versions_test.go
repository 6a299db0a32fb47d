package scenarios

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"

	"github.com/leasestorm/leasestorm/sim"
	"github.com/leasestorm/leasestorm/sim/fault"
)

// losses is a storm in which Redis loses its data in three different ways. Between the losses, instances take leases over.
func losses(name string, node []string) sim.Scenario {
	return sim.Scenario{
		Name: name, Nodes: 4, Sessions: 20, Duration: 7 * time.Minute, NodeCmd: node,
		Plan: []fault.Fault{
			{At: settled, Kind: fault.RedisFlush},
			{At: settled + 80*time.Second, Kind: fault.Crash, Target: "node-1", For: 5 * time.Second},
			{At: settled + 80*time.Second, Kind: fault.Crash, Target: "node-2", For: 5 * time.Second},
			{At: settled + 150*time.Second, Kind: fault.RedisRestart},
			{At: settled + 230*time.Second, Kind: fault.Freeze, Target: "node-3", For: 2 * ttl},
			{At: settled + 240*time.Second, Kind: fault.RedisWipe, For: time.Second},
		},
	}
}

var _ = Describe("A fleet that is not all alike", func() {
	It("keeps one owner and one poller while half of it runs the scripts of an earlier version", Label("versions"),
		func(ctx SpecContext) {
			dir := GinkgoT().TempDir()
			old, err := gexec.Build("github.com/leasestorm/leasestorm/cmd/node", "-overlay", earlierScripts(dir))
			Expect(err).NotTo(HaveOccurred())
			holds(ctx, losses("two-versions", halves(dir, `exec `+old+` "$@"`)), "G1", "G2", "G3")
		})

	It("keeps one owner and one poller while half of it has a tenth of the others' TTL", Label("versions"),
		func(ctx SpecContext) {
			shorter := `LEASESTORM_TTL_MS=$((LEASESTORM_TTL_MS/10)) LEASESTORM_RENEW_MS=$((LEASESTORM_RENEW_MS/10)) LEASESTORM_HEARTBEAT_MS= LEASESTORM_LONG_POLLS=true exec ` + referenceNode + ` "$@"`
			holds(ctx, losses("two-ttls", halves(GinkgoT().TempDir(), shorter)), "G1", "G2", "G3")
		})
})

// halves is a node command that starts every second node with the command otherwise.
func halves(dir, otherwise string) []string {
	file := filepath.Join(dir, "node.sh")
	text := "case $LEASESTORM_NODE in *[02468]) " + otherwise + ";; esac\nexec " + referenceNode + ` "$@"` + "\n"
	Expect(os.WriteFile(file, []byte(text), 0o600)).To(Succeed())
	return []string{"sh", file}
}

// earlierScripts returns an overlay with the store's scripts of the version before the group's record. They take one key less and return
// one element less.
func earlierScripts(dir string) string {
	store := absolute("../internal/redisstore")
	replace := map[string]string{}
	texts, err := filepath.Glob(filepath.Join(store, "testdata", "lua-159fa90", "*.lua"))
	Expect(err).NotTo(HaveOccurred())
	Expect(texts).NotTo(BeEmpty())
	for _, text := range texts {
		replace[filepath.Join(store, "lua", filepath.Base(text))] = text
	}
	code, err := os.ReadFile(filepath.Join(store, "conn.go"))
	Expect(err).NotTo(HaveOccurred())
	was := string(code)
	for _, change := range [][2]string{
		{"if s.fresh.mayBeNew(func() { _ = s.client.Ping(ctx).Err() }) {", "if false {"},
		{"c.script.Run(ctx, s.client, c.Keys, c.Args...).Slice()", `c.script.Run(ctx, s.client, c.Keys[:len(c.Keys)-1], c.Args...).Slice()
	if len(reply) > 3 {
		reply = append(append(reply[:3:3], int64(0)), reply[3:]...)
	}`},
	} {
		Expect(strings.Count(was, change[0])).To(Equal(1))
		was = strings.Replace(was, change[0], change[1], 1)
	}
	changed := filepath.Join(dir, "conn.go")
	Expect(os.WriteFile(changed, []byte(was), 0o600)).To(Succeed())
	replace[filepath.Join(store, "conn.go")] = changed
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	Expect(err).NotTo(HaveOccurred())
	name := filepath.Join(dir, "overlay.json")
	Expect(os.WriteFile(name, overlay, 0o600)).To(Succeed())
	return name
}
