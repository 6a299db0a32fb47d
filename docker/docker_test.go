// Package docker holds images and a fleet of containers. It has no code: its tests hold what must be true of the files, and start
// the fleet.
package docker

import (
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/leasestorm/leasestorm/sim"
)

// service is the tested part of a service in compose.yaml.
type service struct {
	Image       string               `yaml:"image"`
	User        string               `yaml:"user"`
	Init        bool                 `yaml:"init"`
	ReadOnly    bool                 `yaml:"read_only"`
	Privileged  bool                 `yaml:"privileged"`
	CapDrop     []string             `yaml:"cap_drop"`
	CapAdd      []string             `yaml:"cap_add"`
	SecurityOpt []string             `yaml:"security_opt"`
	NetworkMode string               `yaml:"network_mode"`
	Pid         string               `yaml:"pid"`
	Restart     string               `yaml:"restart"`
	MemLimit    string               `yaml:"mem_limit"`
	PidsLimit   int                  `yaml:"pids_limit"`
	Grace       string               `yaml:"stop_grace_period"`
	Environment map[string]string    `yaml:"environment"`
	Networks    []string             `yaml:"networks"`
	Ports       []string             `yaml:"ports"`
	Command     []string             `yaml:"command"`
	Volumes     []volume             `yaml:"volumes"`
	Healthcheck map[string]any       `yaml:"healthcheck"`
	DependsOn   map[string]condition `yaml:"depends_on"`
}

// volume is one in either of its forms.
type volume struct {
	Source, Target string
	ReadOnly       bool
}

// UnmarshalYAML reads "source:target[:ro]", or the mapping.
func (v *volume) UnmarshalYAML(read func(any) error) error {
	var long struct {
		Source   string `yaml:"source"`
		Target   string `yaml:"target"`
		ReadOnly bool   `yaml:"read_only"`
	}
	if read(&long) == nil {
		*v = volume{defaults(long.Source), long.Target, long.ReadOnly}
		return nil
	}
	var short string
	err := read(&short)
	parts := strings.Split(defaults(short), ":")
	*v = volume{parts[0], strings.Join(parts[1:min(2, len(parts))], ""), len(parts) > 2 && parts[2] == "ro"}
	return err
}

type condition struct {
	Condition string `yaml:"condition"`
}

// fleet is compose.yaml.
type fleet struct {
	Services map[string]service `yaml:"services"`
	Networks map[string]struct {
		Internal bool `yaml:"internal"`
	} `yaml:"networks"`
}

var (
	// byNumber is a user and a group that are not root, and that an orchestrator can see are not.
	byNumber = regexp.MustCompile(`^[1-9][0-9]*:[1-9][0-9]*$`)
	// pinned is an image with a tag that does not move by itself. Variables have a default.
	pinned = regexp.MustCompile(`^[a-z/]+:[a-z0-9.-]+$`)
	// variable is one with a default.
	variable = regexp.MustCompile(`\$\{[A-Z_]+:-([^}]*)\}`)
)

func defaults(text string) string { return variable.ReplaceAllString(text, "$1") }

// wrong returns the general rules that a service breaks.
func (s service) wrong() []string {
	drain, _ := strconv.Atoi(s.Environment["LEASESTORM_DRAIN_MS"])
	grace, _ := time.ParseDuration(s.Grace)
	image := defaults(s.Image)
	var out []string
	for problem, there := range map[string]bool{
		"user: no numbers, or root":                !byNumber.MatchString(s.User),
		"init: true is missing":                    !s.Init,
		"read_only: true is missing":               !s.ReadOnly,
		"privileged, or rights of its own":         s.Privileged || len(s.CapAdd) > 0,
		"cap_drop: [ALL] is missing":               !slices.Equal(s.CapDrop, []string{"ALL"}),
		"no-new-privileges is missing":             !slices.Contains(s.SecurityOpt, "no-new-privileges:true"),
		"shares a namespace with the host":         s.NetworkMode != "" || s.Pid != "",
		"restart is not decided":                   s.Restart == "",
		"mem_limit is missing":                     s.MemLimit == "",
		"pids_limit is missing":                    s.PidsLimit == 0,
		"stop_grace_period ends before the drain":  grace <= time.Duration(drain)*time.Millisecond,
		"image: no tag that stays, or is " + image: !pinned.MatchString(image) || strings.HasSuffix(image, ":latest"),
		"no network of this fleet":                 len(s.Networks) == 0,
	} {
		if there {
			out = append(out, problem)
		}
	}
	for _, port := range s.Ports {
		if !strings.HasPrefix(port, "127.0.0.1:") {
			out = append(out, "port "+port+" is open beyond 127.0.0.1")
		}
	}
	for _, v := range s.Volumes {
		if strings.Contains(v.Source, ".sock") || strings.HasPrefix(v.Source, "/") {
			out = append(out, "mounts "+v.Source+" of the host")
		}
	}
	slices.Sort(out)
	return out
}

func loadFleet(t *testing.T) fleet {
	t.Helper()
	text, err := os.ReadFile("compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var f fleet
	// A service's own keys stand beside those that it merges.
	if err := yaml.UnmarshalWithOptions(text, &f, yaml.AllowDuplicateMapKey()); err != nil {
		t.Fatal(err)
	}
	if len(f.Services) < 8 || f.Services["redis"].User != "999:999" || f.Services["redis"].Restart == "" {
		t.Fatalf("%d services, Redis is %+v: not read as compose does, and the rules would hold of nothing", len(f.Services), f.Services["redis"])
	}
	return f
}

// mighty lists the exceptions of the profile storm, which uses the engine, in order.
var mighty = []string{
	"mounts /var/run/docker.sock of the host", "no network of this fleet", "privileged, or rights of its own",
	"shares a namespace with the host", "user: no numbers, or root",
}

// The storm's file must describe this fleet. Otherwise, the storm is refused.
func TestStormIsOfThisFleet(t *testing.T) {
	s, err := sim.Load("storm.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	nodes := 0
	for name, s := range loadFleet(t).Services {
		if !strings.HasPrefix(name, "node-") {
			continue
		}
		nodes++
		for variable, want := range map[string]time.Duration{
			"TTL": c.TTL, "RENEW": c.Renew, "HEARTBEAT": c.Heartbeat, "DISCOVERY": c.Discovery, "POLL": c.Poll, "POLL_TIMEOUT": c.PollTimeout,
		} {
			if got := s.Environment["LEASESTORM_"+variable+"_MS"]; got != strconv.FormatInt(want.Milliseconds(), 10) {
				t.Errorf("compose.yaml: %s has %s ms for %s, and storm.yaml %v", name, got, variable, want)
			}
		}
	}
	if nodes != c.Nodes || c.Sessions != sessions {
		t.Errorf("storm.yaml: %d nodes and %d sessions, the fleet has %d and %d", c.Nodes, c.Sessions, nodes, sessions)
	}
}

func TestServicesAreConfined(t *testing.T) {
	f := loadFleet(t)
	for name, s := range f.Services {
		wrong := s.wrong()
		if name == "storm" && slices.Equal(wrong, mighty) {
			continue
		}
		for _, w := range wrong {
			t.Errorf("compose.yaml: %s: %s", name, w)
		}
		for _, network := range s.Networks {
			if n, known := f.Networks[network]; !known || !n.Internal && len(s.Ports) == 0 {
				t.Errorf("compose.yaml: %s publishes nothing, so the network %s of it must be internal", name, network)
			}
		}
		for on, c := range s.DependsOn {
			if c.Condition == "service_healthy" && f.Services[on].Healthcheck == nil {
				t.Errorf("compose.yaml: %s waits for %s to be healthy, which has no health check", name, on)
			}
		}
	}
}

// If a file of tokens is mounted by itself, a replacement is not seen. So the API mounts the folder, read-only.
func TestTokensAreInAFolderThatIsMounted(t *testing.T) {
	api := loadFleet(t).Services["api"]
	file := ""
	for i, word := range api.Command {
		if word == "--tokens" && i+1 < len(api.Command) {
			file = api.Command[i+1]
		}
	}
	if !slices.ContainsFunc(api.Volumes, func(v volume) bool {
		return v.Target == filepath.Dir(file) && v.ReadOnly && v.Source == "../bin/docker/tokens.d"
	}) {
		t.Errorf("the tokens are %q, and mounted is %+v", file, api.Volumes)
	}
}

// Every client of Redis has its own proxy, which can be disturbed alone.
func TestEachHasAProxyOfItsOwn(t *testing.T) {
	var proxies []struct {
		Name, Listen, Upstream string
		Enabled                bool
	}
	text, err := os.ReadFile("toxiproxy.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &proxies); err != nil {
		t.Fatal(err)
	}
	ports := map[string]string{} // port → proxy
	for _, p := range proxies {
		_, port, err := net.SplitHostPort(p.Listen)
		if err != nil || ports[port] != "" || p.Upstream != "redis:6379" || !p.Enabled {
			t.Errorf("toxiproxy.json: %+v: %v", p, err)
		}
		ports[port] = p.Name
	}
	asking := 0
	for name, s := range loadFleet(t).Services {
		raw, asks := s.Environment["LEASESTORM_REDIS_URL"]
		if !asks {
			continue
		}
		asking++
		u, err := url.Parse(raw)
		if err != nil || u.Hostname() != "toxiproxy" || ports[u.Port()] != name {
			t.Errorf("compose.yaml: %s asks %s, which is the proxy %q", name, raw, ports[u.Port()])
		}
	}
	if asking != len(proxies) {
		t.Errorf("%d services ask Redis through %d proxies", asking, len(proxies))
	}
}

// wrongRecipe returns the general rules that a Dockerfile breaks.
func wrongRecipe(text string) (out []string) {
	var words [][]string
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", " ")) {
		if strings.HasPrefix(line, "# syntax") || strings.HasPrefix(line, "#syntax") {
			out = append(out, "a frontend would have to be pulled")
		}
		if fields := strings.Fields(line); len(fields) > 1 && !strings.HasPrefix(line, "#") {
			words = append(words, fields)
		}
	}
	if len(words) < 2 || strings.Join(words[0], " ") != "FROM scratch" || words[1][0] != "COPY" {
		out = append(out, "does not begin with FROM scratch and what is copied")
	}
	user := ""
	for i, w := range words {
		switch {
		case w[0] == "RUN" || w[0] == "ADD" || w[0] == "FROM" && i > 0:
			out = append(out, w[0]+" needs what is not here")
		case w[0] == "USER":
			user = w[1]
		}
	}
	if !byNumber.MatchString(user) {
		out = append(out, fmt.Sprintf("USER is %q", user))
	}
	for _, label := range []string{"title", "description", "version"} {
		if !strings.Contains(text, "org.opencontainers.image."+label+"=") {
			out = append(out, "no label "+label)
		}
	}
	return out
}

func TestImagesAreBuiltOfNothing(t *testing.T) {
	files, err := filepath.Glob("*.Dockerfile")
	if err != nil || len(files) != 4 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range wrongRecipe(string(text)) {
			t.Errorf("%s: %s", file, w)
		}
	}
	node, err := os.ReadFile("node.Dockerfile")
	if err != nil || !strings.Contains(string(node), `HEALTHCHECK`) || !strings.Contains(string(node), `CMD ["/node", "health"]`) {
		t.Errorf("node.Dockerfile: no health check by the program itself: %v", err)
	}
}
