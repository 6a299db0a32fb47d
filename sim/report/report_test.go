package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/timing"
)

const (
	sec = int64(time.Second)
	mil = int64(time.Millisecond)
)

// saved writes the folder of a small run: A holds s and crashes, and B takes it over. With overlap, B does so too early.
func saved(t *testing.T, overlap bool) (dir string, r Report) {
	t.Helper()
	dir = t.TempDir()
	takeover := 3*sec + 100*mil
	if overlap {
		takeover = 1900 * mil
	}
	rec := history.NewRecorder()
	for _, e := range []history.Event{
		{Kind: history.Phase, Reason: "start"},
		{Kind: history.SessionAdded, Session: "s"},
		{Kind: history.Ready, Node: "node-1", Instance: "i1"},
		{Kind: history.Ready, Node: "node-2", Instance: "i2"},
		{T: 1, Kind: history.Phase, Reason: "storm"},
		{T: 100 * mil, Kind: history.Acquired, Node: "node-1", Instance: "i1", Session: "s", Fence: 5, Until: 3*sec + 70*mil},
		{T: 2 * sec, Kind: history.FaultStart, Node: "node-1", Reason: "crash"},
		{T: 2*sec + mil, Kind: history.Exited, Node: "node-1", N: -1, Reason: "asked"},
		{T: takeover, Kind: history.Acquired, Node: "node-2", Instance: "i2", Session: "s", Fence: 6, Until: 9 * sec},
		{T: 9 * sec, Kind: history.Phase, Reason: "end"},
	} {
		rec.Add(e)
	}
	if err := rec.Save(filepath.Join(dir, history.FileName)); err != nil {
		t.Fatal(err)
	}
	p := check.Params{
		Nodes: 2, Sessions: 1,
		Timings: timing.Timings{
			TTL: 3 * time.Second, Renew: time.Second, Poll: time.Second, Discovery: time.Second,
		},
		Plan:     fault.Plan{Version: fault.Version, Seed: 42, Faults: []fault.Fault{{At: 2 * time.Second, Kind: fault.Crash, Target: "node-1"}}},
		Criteria: []string{"G1", "G3", "G5"}, Foreign: true,
	}
	events, sum := history.Summed(rec.Events())
	result, err := check.Judge(p, events, nil)
	if err != nil {
		t.Fatal(err)
	}
	scenario := os.WriteFile(filepath.Join(dir, ScenarioName), []byte("nodes: 2\n"), 0o600)
	if err := errors.Join(scenario, p.Plan.Save(filepath.Join(dir, PlanName))); err != nil {
		t.Fatal(err)
	}
	files, err := ReadFiles(dir)
	if err != nil {
		t.Fatal(err)
	}
	sha := sum()
	Explain(&result, events)
	r = New(Meta{
		Engine: "real", Commit: "abc", Redis: Redis{"server", "7.0.15"}, RedisCommands: 12, Wall: 9 * time.Second, Sums: files.Sums(),
		SHA256: sha,
	}, p, result)
	if err := r.Save(dir); err != nil {
		t.Fatal(err)
	}
	return dir, r
}

// TestJudgeAgain: a saved folder has the same verdicts as its run.
func TestJudgeAgain(t *testing.T) {
	for _, overlap := range []bool{false, true} {
		dir, want := saved(t, overlap)
		if err := os.Mkdir(filepath.Join(dir, LogsName), 0o700); err != nil {
			t.Fatal(err)
		}
		got, result, err := Judge(dir)
		if err != nil {
			t.Fatal(err)
		}
		wantText, _ := want.JSON()
		gotText, _ := got.JSON()
		wantText = []byte(strings.Replace(string(wantText), "the nodes' logs were not kept", "the nodes keep no structured log", 1))
		if diff := cmp.Diff(string(wantText), string(gotText)); diff != "" {
			t.Errorf("overlap %v: judged differently:\n%s", overlap, diff)
		}
		if v, _ := result.Verdict("G1"); overlap != (v.Verdict == check.Fail) || overlap != (len(v.Evidence) > 0) {
			t.Errorf("overlap %v: G1 %s with %d events", overlap, v.Verdict, len(v.Evidence))
		}
	}
}

// TestJudgeWithoutSumOfHistory: a report without the checksum of the history is an error.
func TestJudgeWithoutSumOfHistory(t *testing.T) {
	dir, r := saved(t, false)
	r.Stats.HistorySHA256 = ""
	if err := r.Save(dir); err != nil {
		t.Fatal(err)
	}
	_, _, err := Judge(dir)
	if !errors.Is(err, ErrDamaged) || Readable(err) || !strings.Contains(err.Error(), "no sum of "+history.FileName) {
		t.Errorf("judged: %v", err)
	}
}

// TestReportJSON: tools depend on these names.
func TestReportJSON(t *testing.T) {
	dir, _ := saved(t, false)
	text, err := os.ReadFile(filepath.Join(dir, FileName))
	if err != nil {
		t.Fatal(err)
	}
	var r map[string]any
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	keys := func(m any) []string {
		var out []string
		for k := range m.(map[string]any) {
			out = append(out, k)
		}
		slices.Sort(out)
		return out
	}
	first := func(m any) any { return m.([]any)[0] }
	for name, c := range map[string]struct {
		of   any
		want string
	}{
		"report":    {r, "commit config engine faults guarantees redis seed stats sums verdict version"},
		"redis":     {r["redis"], "kind version"},
		"guarantee": {first(r["guarantees"]), "challenges detail excused exercised id kinds limit spec unit value verdict"},
		"fault":     {first(r["faults"]), "atMs forMs kind target"},
	} {
		if got := strings.Join(keys(c.of), " "); got != c.want {
			t.Errorf("%s has %s, want %s", name, got, c.want)
		}
	}
	for _, k := range []string{"nodes", "sessions", "ttlMs", "renewMs", "durationMs"} {
		if _, ok := r["config"].(map[string]any)[k]; !ok {
			t.Errorf("config lacks %s", k)
		}
	}
	for _, k := range []string{"polls", "acquires", "renewals", "redisCommands", "wallMs", "virtualMs"} {
		if _, ok := r["stats"].(map[string]any)[k]; !ok {
			t.Errorf("stats lacks %s", k)
		}
	}
	if r["seed"] != 42.0 || r["verdict"] != "pass" || r["version"] != 2.0 {
		t.Errorf("seed %v, verdict %v, version %v", r["seed"], r["verdict"], r["version"])
	}
}

// TestDamagedFolders: missing, empty and cut files are named, and the rest is judged.
func TestDamagedFolders(t *testing.T) {
	edit := func(name string, f func([]byte) []byte) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			t.Helper()
			path := filepath.Join(dir, name)
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, f(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	remove := func(name string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			t.Helper()
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	empty := func([]byte) []byte { return nil }
	half := func(b []byte) []byte { return b[:len(b)/2] }
	for _, c := range []struct {
		name     string
		damage   func(*testing.T, string)
		want     error
		says     string
		readable bool
	}{
		{"no report", remove(FileName), ErrNotFound, "report.json", false},
		{"empty report", edit(FileName, empty), ErrEmpty, "report.json", false},
		{"half a report", edit(FileName, half), ErrFormat, "line", false},
		{"a later report", edit(FileName, func(b []byte) []byte {
			return []byte(strings.Replace(string(b), `"version": 2`, `"version": 9`, 1))
		}), ErrFormat, "version 9", false},
		{"more sessions than there are", edit(FileName, func(b []byte) []byte {
			return regexp.MustCompile(`"sessions": \d+`).ReplaceAll(b, []byte(`"sessions": 4611686018427387904`))
		}), ErrDamaged, "more than any run", false},
		{"no plan", remove(PlanName), os.ErrNotExist, PlanName, false},
		{"half a plan", edit(PlanName, half), fault.ErrFormat, "plan.json: invalid plan: the file is cut off", false},
		{"another plan", edit(PlanName, func(b []byte) []byte {
			return []byte(strings.Replace(string(b), "node-1", "node-2", 1))
		}), ErrDamaged, "plan.json", false},
		{"another scenario", edit(ScenarioName, func([]byte) []byte { return []byte("nodes: 3") }), ErrDamaged, ScenarioName, false},
		{"no scenario", remove(ScenarioName), ErrDamaged, ScenarioName, false},
		{"a run that was not judged", edit(FileName, func(b []byte) []byte {
			var r Report
			_ = json.Unmarshal(b, &r)
			r.Guarantees, r.Stats = nil, Stats{}
			b, _ = r.JSON()
			return b
		}), ErrBrokeOff, "the run broke off", true},
		{"a run without a verdict", edit(FileName, func(b []byte) []byte {
			return []byte(strings.Replace(string(b), `"engine": `, `"noVerdict": "no room", "engine": `, 1))
		}), ErrNoVerdict, "no room", false},
		{"logs cut off", edit(FileName, func(b []byte) []byte {
			return []byte(strings.Replace(string(b), `"events": 10,`, `"events": 10, "logEntries": 3,`, 1))
		}), ErrLogs, "hold 0 entries, report.json was made of 3", true},
		{"no history", remove(history.FileName), history.ErrNotFound, history.FileName, false},
		{"empty history", edit(history.FileName, empty), history.ErrEmpty, history.FileName, false},
		{
			"a history cut off",
			edit(history.FileName, func(b []byte) []byte { return b[:len(b)-9] }), history.ErrTruncated,
			"line 10; 9 events before it are readable", true,
		},
		{
			"a history that was not saved, whole", func(t *testing.T, dir string) { journalled(t, dir, func(b []byte) []byte { return b }) },
			history.ErrUnfinished, "holds 10 events", true,
		},
		{"a history that was not saved, and lacks lines", func(t *testing.T, dir string) {
			journalled(t, dir, func(b []byte) []byte { return b[:bytes.LastIndexByte(b[:len(b)-1], '\n')+1] })
		}, ErrAltered, "lines are missing or added", false},
		{"a history that was not saved, and was changed", func(t *testing.T, dir string) {
			journalled(t, dir, func(b []byte) []byte { return bytes.Replace(b, []byte(`"i2"`), []byte(`"i3"`), 1) })
		}, ErrAltered, "its sha256 is", false},
		{"garbage in the history", edit(history.FileName, func(b []byte) []byte {
			return []byte(strings.Replace(string(b), `{"t":1,`, `"t":1,`, 1))
		}), history.ErrMalformed, "line 5", false},
		{"a time changed", edit(history.FileName, func(b []byte) []byte {
			return []byte(strings.Replace(string(b), `{"t":1,`, `{"t":-1,`, 1))
		}), check.ErrUnordered, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, _ := saved(t, true)
			c.damage(t, dir)
			r, result, err := Judge(dir)
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) || Readable(err) != c.readable {
				t.Fatalf("%v (readable %v); want %v, %q, %v", err, Readable(err), c.want, c.says, c.readable)
			}
			whole := errors.Is(err, ErrLogs) || errors.Is(err, ErrBrokeOff) // the history is complete
			if c.readable && (result.Complete && !whole || r.Verdict == check.Pass) {
				t.Errorf("complete %v, verdict %s", result.Complete, r.Verdict)
			}
			if v, ok := result.Verdict("G1"); errors.Is(c.want, history.ErrTruncated) && (!ok || v.Verdict != check.Fail) {
				t.Errorf("the overlap before the cut is not seen: %+v", v)
			}
		})
	}
}

// journalled reduces a saved run's history to what a run leaves that could not save it.
func journalled(t *testing.T, dir string, change func([]byte) []byte) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, history.FileName))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, history.JournalName), change(text), 0o600)
	}
	if err = errors.Join(err, os.Remove(filepath.Join(dir, history.FileName))); err != nil {
		t.Fatal(err)
	}
}

// A guarantee that is never excused decides if it breaks, whatever the criteria are, and is marked.
func TestSafetyIsMarked(t *testing.T) {
	_, r := saved(t, true)
	r.Config.Criteria = []string{"G2"}
	var table strings.Builder
	if err := r.Table(&table); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(table.String(), "G1*") || strings.Contains(table.String(), "G3*") {
		t.Errorf("%s", table.String())
	}
}

func TestText(t *testing.T) {
	dir, r := saved(t, true)
	var table, failures strings.Builder
	if err := r.Table(&table); err != nil {
		t.Fatal(err)
	}
	if err := r.Failures(&failures, dir); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"G1*", "one owner", "FAIL", "101", "UNKNOWN", "verdict: FAIL (seed 42"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, table.String())
		}
	}
	for line := range strings.Lines(table.String()) {
		if len(line) > 120 || strings.Contains(line, "\x1b") {
			t.Errorf("%d characters: %q", len(line), line)
		}
	}
	for _, want := range []string{
		"G1 one owner is BROKEN", "node-1 (i1) and node-2 (i2)", "from 1.9s to 2.001s", "seed 42, commit abc",
		"simulate check " + dir, "simulate replay " + dir, "acquired", "until=9.00000s", "faultStart",
	} {
		if !strings.Contains(failures.String(), want) {
			t.Errorf("the failure lacks %q:\n%s", want, failures.String())
		}
	}
	var brief strings.Builder
	if err := r.Brief(&brief, dir); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(brief.String(), "\n"); lines > 24 || strings.Contains(brief.String(), "faultStart") ||
		!strings.Contains(brief.String(), "G1 one owner is BROKEN") || !strings.Contains(brief.String(), "simulate check "+dir) {
		t.Errorf("%d lines:\n%s", lines, brief.String())
	}
	_, passed := saved(t, false)
	passed.Guarantees = nil
	var none strings.Builder
	if err := passed.Failures(&none, dir); err != nil || none.Len() > 0 {
		t.Errorf("a run that passed has failures (%v): %s", err, none.String())
	}
	passed.Config.Criteria = []string{"G1"}
	passed.Guarantees = []check.Verdict{
		{ID: "G10", Verdict: check.Fail, Value: 3, Unit: "foreign changes", Detail: "a lease was deleted"},
	}
	want := "\nNot asked for, and broken: G10 only the owner (see report.json)\n\n"
	if err := passed.Failures(&none, dir); err != nil || none.String() != want {
		t.Errorf("of what was not asked for a run that passed says %q (%v), want %q", none.String(), err, want)
	}
}

// A node's text adds no line and moves no cursor.
func TestLineIsOneLine(t *testing.T) {
	e := history.Event{Kind: history.Lost, Session: "s\x1b[2J", Instance: "i\nverdict: PASS", Reason: "\u009b\r"}
	got := Line(&e)
	if want := `session=s\u001b[2J instance=i\u000averdict: PASS reason=\u009b\u000d`; !strings.HasSuffix(got, want) {
		t.Errorf("%q lacks %q", got, want)
	}
}

func TestFailuresQuotesTheFolder(t *testing.T) {
	_, r := saved(t, true)
	t.Chdir(t.TempDir())
	const dir = "my runs/it's"
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := r.Failures(&b, dir); err != nil {
		t.Fatal(err)
	}
	if want := `simulate check 'my runs/it'\''s'`; !strings.Contains(b.String(), want) {
		t.Errorf("lacks %s:\n%s", want, b.String())
	}
}

// Every guarantee of every system has its short text in the table.
func TestPromises(t *testing.T) {
	for _, system := range check.Systems() {
		for _, id := range check.IDs(system) {
			if check.Promise(id) == "" {
				t.Errorf("%s of %s has no words in the table", id, system)
			}
		}
	}
}

// A saved run proposes only kinds that this program knows. The texts of its folder are shown safely, or not at all.
func TestAgain(t *testing.T) {
	for name, test := range map[string]struct {
		r    Report
		want string
	}{
		"a server":      {Report{Redis: Redis{Kind: "server"}}, ""},
		"embedded":      {Report{Redis: Redis{Kind: "embedded"}}, " --redis embedded"},
		"containers":    {Report{Redis: Redis{Kind: "container"}, Launcher: LaunchContainers}, " --redis container --launcher container"},
		"by a URL":      {Report{Redis: Redis{Kind: "url"}}, " --redis …  (its Redis was named by a URL)"},
		"a fleet":       {Report{Redis: Redis{Kind: "compose"}}, " --compose …  (it stormed the fleet of a compose project)"},
		"unknown words": {Report{Redis: Redis{Kind: "$(reboot)"}, Launcher: "$(reboot)"}, ""},
		"theirs": {
			Report{Redis: Redis{Kind: "url"}, Config: check.Params{Foreign: true}, NodeCmd: []string{"BUG=x", "it"}},
			" --redis … --node-cmd …  (its Redis was named by a URL; its nodes were: BUG=x it)",
		},
		"nobody knows": {Report{Config: check.Params{Foreign: true}}, " --node-cmd …"},
		"just ended":   {Report{Redis: Redis{Kind: "url"}, ReplayFlags: " --redis redis://a:1"}, " --redis redis://a:1"},
	} {
		if got := test.r.Again().String(); got != test.want {
			t.Errorf("%s: %q, not %q", name, got, test.want)
		}
	}
}

// A verdict affected by a stall of the host says so, in its row and in the headline.
func TestAStalledHostIsNamedInTheVerdict(t *testing.T) {
	r := Report{Seed: 7, Verdict: check.Pass, Guarantees: []check.Verdict{
		{ID: "G5", Verdict: check.Pass, Exercised: 1, Stalled: 2 * sec}, {ID: "G8", Verdict: check.Pass, Exercised: 1, Stalled: 6*mil - 1},
		{ID: "G9", Verdict: check.Pass, Exercised: 1},
	}}
	var out bytes.Buffer
	if err := r.Table(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`(?m)^G5\*? +failover +PASS, the host stalled 2\.0 s +0 `, `(?m)^G8\*? +no missed polls +PASS, the host stalled 6 ms +0 `,
		`(?m)^G9\*? +Redis fails +PASS +0 `, `(?m)^verdict: PASS, the host stalled 2\.0 s \(seed 7; `,
	} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("no %s in:\n%s", want, &out)
		}
	}
}
