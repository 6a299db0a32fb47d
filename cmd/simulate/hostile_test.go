package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"

	"github.com/leasestorm/leasestorm/internal/heldtest"
	"github.com/leasestorm/leasestorm/sim"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/report"
)

// What a file that somebody else made may cost. What is allowed of CPU is four times what the worst takes here: a busy
// machine's cores count more seconds for the same work, and work that grows with the square takes minutes.
const (
	hostileCPU    = 20 * time.Second
	hostileMemory = 512 << 20
)

// ended is how a program ended that was given hostile files.
type ended struct {
	code           int
	stdout, stderr string
}

// play runs a program in dir and holds what it took against the limits, and what it printed against what a terminal may be told.
func play(t *testing.T, dir, program string, args ...string) ended {
	t.Helper()
	e, took := played(t, dir, program, args...)
	if took := took.UserTime() + took.SystemTime(); took > hostileCPU && !underRace() {
		t.Errorf("it took %v", took)
	}
	if used, ok := took.SysUsage().(*syscall.Rusage); ok && used.Maxrss<<10 > hostileMemory && !underRace() {
		t.Errorf("it took %d MiB", used.Maxrss>>10)
	}
	for _, text := range []string{e.stdout, e.stderr} {
		if i := strings.IndexFunc(text, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); i >= 0 {
			t.Errorf("the terminal is told %q", text[i:min(len(text), i+40)])
		}
	}
	return e
}

// played runs a program in dir.
func played(t *testing.T, dir, program string, args ...string) (ended, *os.ProcessState) {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Dir = dir
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return ended{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}, cmd.ProcessState
}

// underRace says whether the race detector is on, which makes a program some ten times slower and larger.
func underRace() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// refused wants exit code 3 and one line that says so.
func refused(t *testing.T, e ended, says string) {
	t.Helper()
	if e.code != exitWrong || e.stdout != "" || strings.Count(e.stderr, "\n") != 1 || !strings.HasPrefix(e.stderr, "simulate: ") ||
		!strings.Contains(e.stderr, says) {
		t.Errorf("exit code %d, want %d and one line with %q\nstdout: %.300s\nstderr: %.600s", e.code, exitWrong, says, e.stdout, e.stderr)
	}
}

// Scenario files that somebody else made are refused, each in one line, and cost little.
func TestHostileScenarios(t *testing.T) {
	const many = 60_000 // bytes, near the most that are read
	fill := func(part string) string { return strings.Repeat(part, many/len(part)) }
	laughs := "a0: &a0 [x,x,x,x,x,x,x,x,x]\n"
	for i := range 20 {
		laughs += fmt.Sprintf("a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i), 9), ","))
	}
	var down strings.Builder
	for i := 0; down.Len() < many; i++ {
		down.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	var anchors strings.Builder
	for i := 0; anchors.Len() < many; i++ {
		fmt.Fprintf(&anchors, "a%d: &a%d\n  <<: *a%d\n", i+1, i+1, i)
	}
	for name, c := range map[string]struct{ text, says string }{ // "": whatever it says
		"laughs":         {laughs, "an alias"},
		"laughs in key":  {laughs + "name: *a20\n", "an alias"},
		"alias of all":   {"name: &a [*a, *a]\n", ""},
		"alias unknown":  {"name: *nobody\n", ""},
		"merges":         {anchors.String(), ""},
		"lists":          {fill("["), "more than 32"},
		"mappings":       {fill("{"), "more than 32"},
		"mappings named": {fill("{a: "), "more than 32"},
		"entries":        {fill("- "), "more than 32"},
		"keys":           {fill("? "), "more than 32"},
		"downwards":      {down.String(), ""},
		"colons":         {fill("a: "), ""},
		"anchors":        {fill("&a "), ""},
		"tags":           {fill("!!map "), ""},
		"stars":          {fill("*"), ""},
		"quotes":         {fill("\"'"), ""},
		"directives":     {fill("%YAML 1.2\n"), ""},
		"documents":      {fill("---\n"), ""},
		"comments":       {fill("#\n"), "empty"},
		"unknown keys":   {fill("a: 1\n"), ""},
		"nothing":        {fill("\x00"), ""},
		"no text":        {fill("\xff\xfe"), ""},
		"tabs":           {fill("\t"), ""},
		"returns":        {fill("\r"), ""},

		"many nodes":        {"nodes: 1000000000\n", "f.yaml:1:8: nodes: 1000000000 is out of bounds"},
		"nodes in powers":   {"nodes: 1e9\n", "f.yaml:1:8: "},
		"more nodes":        {"nodes: 99999999999999999999999\n", "f.yaml:1:8: "},
		"less than none":    {"nodes: -1\n", "f.yaml:1:8: nodes: must be more than zero"},
		"many sessions":     {"sessions: 1000000000\n", "f.yaml:1:11: sessions: 1000000000 is out of bounds"},
		"sessions negative": {"sessions: -9223372036854775808\n", "f.yaml:1:11: sessions: must be more than zero"},
		"long":              {"duration: 1000000h\n", "f.yaml:1:11: duration: "},
		"longer":            {"duration: 99999999999999h\n", "f.yaml: "},
		"backwards":         {"duration: -5m\n", "f.yaml:1:11: duration: must be more than zero"},
		"no speed":          {"speed: .nan\n", "f.yaml:1:8: speed: must be more than zero"},
		"all speed":         {"speed: .inf\n", "f.yaml:1:8: speed: +Inf is out of bounds"},
		"speed back":        {"speed: -.inf\n", "f.yaml:1:8: speed: must be more than zero"},
		"speed of powers":   {"speed: 1e999\n", ""},
		"slow":              {"speed: 1e-300\n", "speed: 1e-300 is out of bounds"},
		"seed negative":     {"seed: -1\n", ""},
		"ttl":               {"timings: {ttl: 99999999h}\n", ""},
		"ttl of no number":  {"timings: {ttl: .nan}\n", ""},
		"loss":              {"engine: virtual\nvirtual: {net: {lost: .nan}}\n", ""},
		"no such criteria":  {"criteria: [\"\\e[2J\"]\n", "G"},

		"a thousand faults, the last one odd": {
			"nodes: 10000\nsessions: 1\nengine: virtual\nplan:\n" + strings.Repeat("- {at: 1s, kind: redis-wipe}\n", 1999) +
				"- {at: 1s, kind: crash, target: node-77777}\n", "plan[1999]: fault 2000: ",
		},
		"joins": {"engine: virtual\nplan:\n" + joins(1500), ""},
		"sessions that come": {
			"engine: virtual\nplan:\n" + strings.Repeat("- {at: 1s, kind: session-add, ms: 100000}\n", 1000),
			"plan[9]: fault 10: invalid fault: 1000100 sessions with those that it adds: at most 1000000",
		},
		"a node of many digits": {"plan: [{at: 1s, kind: crash, target: node-99999999999999999999}]\n", "is no node"},
		"fault long":            {"engine: virtual\nplan: [{at: 1s, kind: freeze, target: node-1, for: 999999h}]\n", ""},
		"fault before":          {"plan: [{at: -1s, kind: crash, target: node-1}]\n", "outside the storm"},
		"amount":                {"plan: [{at: 1s, kind: latency, target: node-1, for: 1s, ms: 9223372036854775807}]\n", "at most 86400000"},
		"target":                {"plan: [{at: 1s, kind: crash, target: \"\\e[2J\\u202e\\x9b\\x7f\\n\"}]\n", "is no node"},
		"kind":                  {"plan: [{at: 1s, kind: \"\\e[2J\\u202e\"}]\n", ""},
		"name":                  {"name: ../../x\n", "f.yaml:1:7: name: "},
		"name of escapes":       {"name: \"\\e[2J\\u202e\\x9b\\x7f\\nx\"\n", "f.yaml:1:7: name: "},
		"key of escapes":        {"\"\\e[2J\\u202e\\x9b\\x7f\": 1\n", ""},
		"raw escapes":           {"\x1b[2J\u202e\u009b\x7f: 1\n", ""},
		"engine":                {"engine: \"\\e[2J\"\n", "engine: "},
		"system":                {"system: \"\\e[2J\"\n", "system: "},
		"node":                  {"nodeCmd: [\"\\e[2J\", \"a\\u202eb\\x7f\"]\n", "names "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "f.yaml"), []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			refused(t, play(t, dir, "simulate", "--scenario", "f.yaml"), c.says)
			if !strings.HasPrefix(c.text, "engine: ") && !strings.HasPrefix(c.text, "nodeCmd: ") { // an exploration has an engine of its own
				refused(t, play(t, dir, "simulate", "--scenario", "f.yaml", "--seeds", "1-2"), "")
			}
			if _, err := os.Stat(filepath.Join(dir, "reports")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("something was left: %v", err)
			}
		})
	}
}

func joins(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "- {at: 1s, kind: join, target: node-%d}\n", 1_000_000_000+i)
	}
	return b.String()
}

// What takes more memory than an honest run of its size is refused by name, whatever command reads it: no exit code of a verdict.
// What nobody else wrote may take what it takes.
func TestGuardOfMemory(t *testing.T) {
	dir := t.TempDir()
	small := []string{"--engine", "virtual", "--nodes", "2", "--sessions", "2", "--duration", "1m", "--faults", "crash", "--quiet"}
	if e := play(t, dir, "simulate", append(small, "--seed", "9")...); e.code != exitPass {
		t.Fatal(e)
	}
	if err := os.WriteFile(filepath.Join(dir, "f.yaml"), []byte("engine: virtual\nnodes: 2\nsessions: 2\nduration: 1m\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const run, state = "reports/storm-9", "reports/explore-1-2.jsonl.zst"
	explore := append(small, "--seeds", "1-2", "--parallel", "1")
	if e := play(t, dir, "simulate", explore...); e.code == exitWrong {
		t.Fatal(e)
	}
	for _, c := range []struct {
		name string
		args []string
	}{
		{run, []string{"replay", run, "--quiet"}},
		{state, append(explore, "--resume")},
		{run, []string{"shrink", run}},
		{run, []string{"shrink", run, "--confirm-real"}},
		{"f.yaml", []string{"--scenario", "f.yaml", "--quiet"}},
		{"f.yaml", []string{"--scenario", "f.yaml", "--seeds", "3-4", "--parallel", "1", "--quiet"}}, // no two explore the same at once
		{"f.yaml", []string{"replay", "42", "--scenario", "f.yaml", "--quiet"}},
		{"f.yaml", []string{"shrink", "42", "--scenario", "f.yaml", "--confirm-real"}},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			t.Parallel()
			refused(t, play(t, dir, "hungry", c.args...), `"`+c.name+`": refused: it takes more than `)
		})
	}
	t.Run("flags only", func(t *testing.T) {
		t.Parallel()
		if e := play(t, dir, "hungry", append(small, "--seed", "8")...); e.code != exitPass {
			t.Error(e)
		}
	})
}

// An honest run's size is what its guard is for, as measured: large takes 290 MiB in virtual time and 533 MB with real processes, 500
// nodes and 20,000 sessions 2,225 MiB, 2,000 nodes 1,784 MiB, 200,000 sessions for 20 s 1,791 MiB.
func TestMemoryOfHonestRuns(t *testing.T) {
	for _, c := range []struct {
		s     sim.Scenario
		takes int64 // MiB
	}{
		{sim.Scenario{Engine: sim.EngineVirtual, Nodes: 50, Sessions: 5000, Duration: 5 * time.Minute}, 290},
		{sim.Scenario{Nodes: 50, Sessions: 5000, Speed: 1, Duration: 5 * time.Minute}, 533},
		{sim.Scenario{Engine: sim.EngineVirtual, Nodes: 500, Sessions: 20_000, Duration: 5 * time.Minute}, 2225},
		{sim.Scenario{Engine: sim.EngineVirtual, Nodes: 2000, Sessions: 2, Duration: 20 * time.Second}, 1784},
		{sim.Scenario{Engine: sim.EngineVirtual, Nodes: 2, Sessions: 200_000, Duration: 20 * time.Second}, 1791},
	} {
		config, err := c.s.Resolve()
		if err != nil {
			t.Fatal(err)
		}
		if may := memoryOf(config) >> 20; may < c.takes+512/2 || may > 512+4<<10 {
			t.Errorf("%d nodes, %d sessions: may take %d MiB, take %d", c.s.Nodes, c.s.Sessions, may, c.takes)
		}
	}
	if small, err := (sim.Scenario{Engine: sim.EngineVirtual, Nodes: 2, Sessions: 2}).Resolve(); err != nil || memoryOf(small)>>20 > 513 {
		t.Errorf("a small run may take %d MiB, %v", memoryOf(small)>>20, err)
	}
}

// hostileFolder is what is done to an honest run's folder.
type hostileFolder struct {
	do   func(dir string) error
	says map[string]string // by command; "" is for all others; a command that is absent need not refuse, and must end as said above
}

// Folders that somebody else made are refused, each in one line, and cost little. The sums in report.json are made to fit: they
// are no signature.
func TestHostileFolders(t *testing.T) {
	base := t.TempDir()
	if e := play(t, base, "simulate", "--engine", "virtual", "--nodes", "2", "--sessions", "2", "--duration", "1m", "--seed", "9",
		"--faults", "crash", "--quiet"); e.code != exitPass {
		t.Fatal(e)
	}
	write := func(name, text string) func(string) error {
		return func(dir string) error { return os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600) }
	}
	edit := func(name, old, text string) func(string) error {
		return func(dir string) error {
			was, err := os.ReadFile(filepath.Join(dir, name))
			if err == nil && !bytes.Contains(was, []byte(old)) {
				err = fmt.Errorf("%s holds no %q", name, old)
			}
			return errors.Join(err, write(name, strings.Replace(string(was), old, text, 1))(dir))
		}
	}
	instead := func(name string, do func(file string) error) func(string) error {
		return func(dir string) error {
			file := filepath.Join(dir, name)
			return errors.Join(os.RemoveAll(file), do(file))
		}
	}
	folder := func(file string) error { return os.Mkdir(file, 0o700) }
	fifo := func(file string) error { return syscall.Mkfifo(file, 0o600) }
	zero := func(file string) error { return os.Symlink("/dev/zero", file) }
	all := func(says string) map[string]string {
		return map[string]string{"check": says, "replay": says, "shrink": says}
	}
	again := func(says string) map[string]string { return map[string]string{"replay": says, "shrink": says} }
	only := func(says string) map[string]string { return map[string]string{"check": says} }
	faults := func(n int, one string) string {
		return `{"version":1,"seed":9,"faults":[` + strings.TrimSuffix(strings.Repeat(one+",", n), ",") + `]}`
	}

	cases := map[string]hostileFolder{
		"huge nodes":      {edit("report.json", `"nodes": 2`, `"nodes": 1000000000`), nil},
		"huge sessions":   {edit("report.json", `"sessions": 2`, `"sessions": 1000000000`), nil},
		"huge both":       {edit("report.json", `"nodes": 2`, `"nodes": 9223372036854775807`), nil},
		"nodes negative":  {edit("report.json", `"nodes": 2`, `"nodes": -2`), all("report.json: config lacks nodes")},
		"nodes in powers": {edit("report.json", `"nodes": 2`, `"nodes": 1e9`), all("report.json: ")},
		"no number":       {edit("report.json", `"nodes": 2`, `"nodes": NaN`), all("report.json: ")},
		"ttl of powers":   {edit("report.json", `"ttlMs": `, `"ttlMs": 1e300, "x": `), all("report.json: ")},
		"long run":        {edit("report.json", `"durationMs": `, `"durationMs": 4e12, "x": `), nil},
		"run backwards":   {edit("report.json", `"durationMs": `, `"durationMs": -4e12, "x": `), nil},
		"looks too short": {edit("report.json", `"discoveryMs": `, `"discoveryMs": 0.000001, "x": `), nil},
		"no criteria":     {edit("report.json", `"config": {`, `"config": {"criteria": ["\u001b[2J", "G99"],`), nil},
		"system":          {edit("report.json", `"config": {`, `"config": {"system": "\u001b[2J",`), nil},
		"deep list":       {write("report.json", strings.Repeat("[", 4_000_000)), all("report.json: ")},
		"deep mapping":    {write("report.json", strings.Repeat(`{"a":`, 800_000)), all("report.json: ")},
		"deep plan":       {write("plan.json", strings.Repeat("[", 4_000_000)), all("plan.json: ")},
		"deep fault":      {write("plan.json", `{"version":1,"faults":[`+strings.Repeat("[", 4_000_000)), all("plan.json: ")},
		"1e7 faults":      {write("plan.json", faults(10_000_000, `{}`)), all("plan.json: too large")},
		"many faults":     {write("plan.json", faults(200_000, `{"kind":"crash"}`)), all("")},
		"many sound faults": {
			write("plan.json", faults(70_000, `{"atMs":1,"kind":"redis-flush","forMs":0}`)), only("plan.json"),
		},
		"sessions that come": {
			write("plan.json", faults(60_000, `{"atMs":1,"kind":"session-add","forMs":0,"ms":100000}`)),
			map[string]string{"check": "plan.json", "replay": "at most 1000000", "shrink": "at most 1000000"},
		},
		"plan's seed":     {write("plan.json", `{"version":1,"seed":-1,"faults":[]}`), all("plan.json: ")},
		"faults no list":  {write("plan.json", `{"version":1,"seed":1,"faults":{}}`), all("plan.json: ")},
		"faults null":     {write("plan.json", `{"version":1,"seed":1,"faults":null}`), only("plan.json")},
		"fault null":      {write("plan.json", `{"version":1,"seed":1,"faults":[null]}`), all("plan.json")},
		"fault's escapes": {write("plan.json", `{"version":1,"seed":1,"faults":[{"kind":"\u001b[2J\u202e\u009b"}]}`), all("plan.json: ")},
		"target": {
			write("plan.json", faults(1, `{"atMs":1,"kind":"crash","target":"\u001b[2J\u202e\u009b\u007f\n","forMs":0}`)),
			map[string]string{"check": "plan.json", "replay": "is no node", "shrink": "is no node"},
		},
		"scenario's name": {write("scenario.yaml", "name: ../../x\n"), again("scenario.yaml:1:7: name: ")},
		"scenario's list": {write("scenario.yaml", strings.Repeat("[", 50_000)), again("more than 32")},
		"scenario large":  {write("scenario.yaml", strings.Repeat("#", 70_000)), all("scenario.yaml: too large")},
		"history empty":   {write("history.jsonl", ""), all("history.jsonl")},
		"history lists":   {write("history.jsonl", strings.Repeat("[", 1_000_000)), again("history.jsonl")},
		"history no text": {write("history.jsonl", strings.Repeat("\xff\x00\x1b", 1_000_000)), all("history.jsonl")},
		"history's kind":  {write("history.jsonl", `{"t":1,"ev":"\u001b[2J","node":"\u001b[2J"}`+"\n"), all("the history was changed")},
		"history's time":  {write("history.jsonl", `{"t":1e300,"ev":"phase"}`+"\n"), all("history.jsonl")},
		"frames": {instead("history.jsonl", func(file string) error { // a window of 2 GiB is asked for
			return os.WriteFile(file+".zst", []byte("\x28\xb5\x2f\xfd\x00\xa8"+strings.Repeat("\x00", 64)), 0o600)
		}), all("history.jsonl.zst")},
		"bomb of one line": {instead("history.jsonl", func(file string) error {
			return bomb(file+".zst", func(w io.Writer) {
				for range 1 << 10 {
					_, _ = w.Write(make([]byte, 1<<20))
				}
			})
		}), all("history.jsonl.zst")},
		"log of holes": {func(dir string) error { return os.Truncate(filepath.Join(dir, "logs/node-1.log"), 40<<30) }, nil},
		"logs a file":  {instead("logs", fifo), nil},
	}
	for _, text := range []string{``, `[]`, `null`, `"x"`, `1`, `{}`, `{"version":"2"}`, `{"version":2}`, `{"version":1e99}`, "\x00", "\x1b[2J"} {
		cases["report "+text] = hostileFolder{write("report.json", text), all("report.json")}
	}
	for old, text := range map[string]string{
		`"config": {`: `"config": [{`, `"faults": [`: `"faults": {"a": [`, `"guarantees": [`: `"guarantees": "\u001b[2J", "x": [`,
		`"stats": {`: `"stats": 1, "x": {`, `"sums": {`: `"sums": ["\u001b[2J"], "x": {`, `"seed": 9`: `"seed": -9`,
		`"verdict": `: `"verdict": {}, "x": `, `"events": `: `"events": "\u001b[2J", "x": `,
	} {
		cases["report's "+old] = hostileFolder{edit("report.json", old, text), all("report.json")}
	}
	for _, name := range []string{"report.json", "plan.json", "scenario.yaml", "history.jsonl", "logs/node-1.log"} {
		says := all(name + ": no regular file")
		if strings.HasPrefix(name, "logs/") {
			says = nil // of which nothing is taken; what stands in the history is judged, see the scripts
		}
		cases[name+" a folder"] = hostileFolder{instead(name, folder), says}
		if name == "history.jsonl" {
			cases[name+" a folder"] = hostileFolder{instead(name, folder), all(name)}
		}
		cases[name+" a FIFO"] = hostileFolder{instead(name, fifo), says}
		cases[name+" without end"] = hostileFolder{instead(name, zero), says}
	}
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		c := cases[name]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			run := filepath.Join(dir, "run")
			if err := errors.Join(os.CopyFS(run, os.DirFS(filepath.Join(base, "reports/storm-9"))), c.do(run)); err != nil {
				t.Fatal(err)
			}
			if r, err := report.Load(heldtest.Dir(t, run)); err == nil { // else there are no sums to be made to fit
				if files, err := report.ReadFiles(heldtest.Dir(t, run)); err == nil {
					maps.Copy(r.Sums, files.Sums())
					if text, err := r.JSON(); err != nil || r.Save(run) != nil {
						t.Fatal(text, err)
					}
				}
			}
			for _, command := range []string{"check", "replay", "shrink"} {
				e := play(t, dir, "simulate", command, "run")
				if says, ok := c.says[command]; ok {
					refused(t, e, says)
				} else if e.code < exitPass || e.code > exitWrong {
					t.Errorf("%s ended with %d: %.300s", command, e.code, e.stderr)
				}
			}
		})
	}
}

// What a foreign folder calls itself, its nodes, instances and sessions, and what it gives as reasons, is text and stays on its line.
func TestHostileNames(t *testing.T) {
	const said, name = `\u001b[2J\u202e\u0085\u007f\nFORGED`, "run\x1b[2J\u202e\nFORGED"
	dir := t.TempDir()
	if e := play(t, dir, "simulate", "--engine", "virtual", "--nodes", "2", "--sessions", "2", "--duration", "1m", "--seed", "9",
		"--faults", "crash", "--quiet"); e.code != exitPass {
		t.Fatal(e)
	}
	plain := func(e ended, code int) {
		t.Helper()
		if text := e.stdout + e.stderr; e.code != code || strings.Contains(text, "\nFORGED") || !strings.Contains(text, "FORGED") {
			t.Errorf("exit code %d, want %d\n%s", e.code, code, text)
		}
	}
	run := filepath.Join(dir, name)
	if err := os.Rename(filepath.Join(dir, "reports/storm-9"), run); err != nil {
		t.Fatal(err)
	}
	plain(play(t, dir, "simulate", "check", name), exitPass)
	plain(play(t, dir, "simulate", "check", name+"/none"), exitWrong)
	plain(play(t, dir, "simulate", "replay", name+"/logs"), exitWrong)
	plain(play(t, dir, "simulate", "--scenario", name), exitWrong)

	// Every poll arrives from an instance that nobody knows, and of every session two owners speak.
	file := filepath.Join(run, "history.jsonl")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"node", "instance", "session", "reason"} {
		text = regexp.MustCompile(`"(ev":"(?:arrived|acquired|released|lost|exited)".*"`+key+`":")`).ReplaceAll(text, []byte(`"${1}`+
			strings.ReplaceAll(said, "$", "$$")))
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := report.Load(heldtest.Dir(t, run))
	if err != nil {
		t.Fatal(err)
	}
	events, sum := history.Summed(history.Open(heldtest.Dir(t, run)))
	for _, err := range events {
		if err != nil {
			t.Fatal(err)
		}
	}
	r.Stats.HistorySHA256, r.Commit, r.Redis.Version = sum(), name, name
	if err := r.Save(run); err != nil {
		t.Fatal(err)
	}
	plain(play(t, dir, "simulate", "check", name), exitFail)
}
