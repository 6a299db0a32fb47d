package page

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/report"
)

// browserFor bounds everything in the browser.
const browserFor = 3 * time.Minute

// browser starts a Chromium for the test, or skips the test without one. CI must have one.
func browser(t *testing.T) context.Context {
	t.Helper()
	var file string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			file = found
			break
		}
	}
	switch {
	case file != "":
	case os.Getenv("CI") == "true":
		t.Fatal("no chromium in PATH: scripts/setup installs it where CI=true")
	default:
		t.Skip("no chromium in PATH: the page is not tried in a browser")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(file), chromedp.NoSandbox, chromedp.WindowSize(1400, 900),
		chromedp.WSURLReadTimeout(time.Minute))
	ctx, cancel := context.WithTimeout(t.Context(), browserFor)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	if err := chromedp.Run(ctx); err != nil {
		t.Fatal(err)
	}
	return ctx
}

// tab opens the page of a run and fails the test on any error in its console.
func tab(browser context.Context, t *testing.T, dir string, r report.Report, fragment string) context.Context {
	t.Helper()
	if _, err := Save(dir, r, true); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := chromedp.NewContext(browser)
	t.Cleanup(cancel)
	var mu sync.Mutex
	var said []string
	chromedp.ListenTarget(ctx, func(ev any) {
		mu.Lock()
		defer mu.Unlock()
		switch ev := ev.(type) {
		case *runtime.EventExceptionThrown:
			said = append(said, ev.ExceptionDetails.Error())
		case *cdplog.EventEntryAdded:
			if ev.Entry.Level == cdplog.LevelError {
				said = append(said, ev.Entry.Text)
			}
		case *runtime.EventConsoleAPICalled:
			if ev.Type == runtime.APITypeError {
				said = append(said, fmt.Sprint(ev.Args))
			}
		}
	})
	t.Cleanup(func() {
		mu.Lock()
		defer mu.Unlock()
		for _, s := range said {
			t.Errorf("the console says: %s", s)
		}
	})
	address := url.URL{Scheme: "file", Path: filepath.ToSlash(filepath.Join(dir, FileName)), Fragment: fragment}
	do(ctx, t, cdplog.Enable(), chromedp.Navigate(address.String()), chromedp.WaitReady(`html[data-ready="yes"]`, chromedp.ByQuery))
	return ctx
}

func do(ctx context.Context, t *testing.T, all ...chromedp.Action) {
	t.Helper()
	if err := chromedp.Run(ctx, all...); err != nil {
		t.Fatal(err)
	}
}

// js returns the value of an expression.
func js[T any](ctx context.Context, t *testing.T, expression string) (out T) {
	t.Helper()
	do(ctx, t, chromedp.Evaluate(expression, &out))
	return out
}

// holds waits until the expression is true.
func holds(ctx context.Context, t *testing.T, what, expression string) {
	t.Helper()
	if err := chromedp.Run(ctx, chromedp.Poll(expression, nil, chromedp.WithPollingTimeout(10*time.Second))); err != nil {
		t.Errorf("%s: %s: %v", what, expression, err)
	}
}

// states are runs in each state of a page.
func states(t *testing.T) map[string]func() (string, report.Report) {
	whole := overlapped(noUntil, "")
	sound := overlapped(func(end int64) int64 { return end - second }, "")
	return map[string]func() (string, report.Report){
		"fail":    func() (string, report.Report) { return saved(t, params(), whole) },
		"hostile": func() (string, report.Report) { return saved(t, params(), overlapped(noUntil, hostile)) },
		"fence":   func() (string, report.Report) { return saved(t, params(), fallen()) },
		"late":    func() (string, report.Report) { return saved(t, params(), crashed(12*second)) },
		"pass": func() (string, report.Report) {
			p := params()
			p.Criteria = []string{"G3"}
			return saved(t, p, sound)
		},
		"unknown": func() (string, report.Report) {
			p := params()
			p.Criteria = []string{"G7"}
			return saved(t, p, sound)
		},
		"interrupted": func() (string, report.Report) {
			p := params()
			p.Interrupted = true
			return saved(t, p, whole[:len(whole)-3])
		},
		"empty":  func() (string, report.Report) { return saved(t, params(), whole[:8]) },
		"nobody": func() (string, report.Report) { return saved(t, params(), nil) },
	}
}

func TestStatesInTheBrowserLong(t *testing.T) {
	if testing.Short() {
		t.Skip("in a browser: make long")
	}
	b := browser(t)
	for name, run := range states(t) {
		t.Run(name, func(t *testing.T) {
			dir, r := run()
			ctx := tab(b, t, dir, r, "")
			if js[bool](ctx, t, "'owned' in window") {
				t.Error("what a node said ran")
			}
			if text := js[string](ctx, t, "document.querySelector('h1').textContent"); text == "" {
				t.Error("the page says nothing")
			}
			do(ctx, t, emulation.SetDeviceMetricsOverride(400, 800, 1, false))
			holds(ctx, t, "400 px", "innerWidth === 400")
			do(ctx, t, chromedp.Reload(), chromedp.WaitReady(`html[data-ready="yes"]`, chromedp.ByQuery))
			if w := js[int](ctx, t, "document.documentElement.scrollWidth"); w > 400 {
				t.Errorf("at 400 px it is %d px wide", w)
			}
			do(ctx, t, chromedp.ActionFunc(func(ctx context.Context) error {
				pdf, _, err := cdppage.PrintToPDF().WithPreferCSSPageSize(true).Do(ctx)
				if err == nil && len(pdf) < 10_000 {
					t.Errorf("the print has %d bytes", len(pdf))
				}
				return err
			}))
		})
	}
}

func TestControlsDoWhatTheySayLong(t *testing.T) {
	if testing.Short() {
		t.Skip("in a browser: make long")
	}
	events := overlapped(noUntil, "")
	events[len(events)-1].T = 60 * second
	dir, r := saved(t, params(), events)
	ctx := tab(browser(t), t, dir, r, "")
	holds(ctx, t, "the broken lease is on screen", `(() => { const c = document.querySelector("h1 code"), at = c.getBoundingClientRect();
		return c.textContent === "11111111" && at.top > 0 && at.bottom < innerHeight; })()`)
	holds(ctx, t, "the break is drawn", `document.querySelectorAll("#break svg [data-line]").length > 10`)
	click := func(selector string) { do(ctx, t, chromedp.Click(selector, chromedp.ByQuery)) }

	holds(ctx, t, "the break comes first, and what is unknown is folded", `(() => { const broke = document.getElementById("break").getBoundingClientRect(),
		table = document.getElementById("guarantees"), rows = [...table.querySelectorAll("tr.unjudged[data-id]")];
		return document.querySelector("#break .num").getBoundingClientRect().bottom < innerHeight && broke.bottom <= table.getBoundingClientRect().top &&
			rows.length > 0 && rows.every((r) => r.offsetHeight === 0); })()`)
	click(`tr.fold button`)
	holds(ctx, t, "the fold opens", `document.querySelector("tr.unjudged[data-id]").offsetHeight > 0`)
	do(ctx, t, chromedp.KeyEvent("?"))
	holds(ctx, t, "? shows the keys", `document.getElementById("keys").open`)
	do(ctx, t, chromedp.KeyEvent("?"))
	holds(ctx, t, "? hides them", `!document.getElementById("keys").open`)

	click(`.cmds button`)
	holds(ctx, t, "copy", `document.querySelector(".cmds button").textContent === "copied"`)
	click(`tr[data-id="G1"] button`)
	holds(ctx, t, "a row opens", `document.querySelector('tr[data-id="G1"] button').getAttribute("aria-expanded") === "true" &&
		document.querySelector('tr[data-id="G1"] + tr').textContent.includes("both trusted their lease")`)

	click(`button[aria-label="zoom in"]`)
	holds(ctx, t, "zoom in", `/t=/.test(location.hash)`)
	click(`button[aria-label="show all"]`)
	holds(ctx, t, "all", `!/t=/.test(location.hash)`)
	click(`button[aria-label="the break"]`)
	holds(ctx, t, "the break", `/t=0\.000-/.test(location.hash)`)
	do(ctx, t, chromedp.SetValue(`select[data-name="node"]`, "node-2", chromedp.ByQuery),
		chromedp.Evaluate(`document.querySelector('select[data-name="node"]').dispatchEvent(new Event("change"))`, nil))
	holds(ctx, t, "node", `/node=node-2/.test(location.hash)`)
	do(ctx, t, chromedp.SendKeys(`input[data-name="session"]`, "1111", chromedp.ByQuery))
	holds(ctx, t, "session", `/session=1111/.test(location.hash)`)
	click(`input[data-name="broken"]`)
	holds(ctx, t, "only broken", `/broken=1/.test(location.hash)`)

	do(ctx, t, chromedp.Focus("#canvas", chromedp.ByQuery), chromedp.KeyEvent("0"), chromedp.KeyEvent("+"))
	holds(ctx, t, "+ on the figure", `/t=/.test(location.hash)`)
	do(ctx, t, chromedp.Focus("#break svg", chromedp.ByQuery), chromedp.KeyEvent(kb.ArrowRight), chromedp.KeyEvent(kb.ArrowRight))
	holds(ctx, t, "arrow keys go from mark to mark", `document.activeElement.hasAttribute("data-line") &&
		document.getElementById("lines").textContent === document.activeElement.getAttribute("aria-label")`)
	click(`#break details summary`)
	holds(ctx, t, "the same as a table", `document.querySelectorAll("#break details tbody tr").length > 5`)

	click(`button[aria-label="show all"]`)
	holds(ctx, t, "all again", `!/t=/.test(location.hash)`)
	holds(ctx, t, "hover tells", `(() => { const c = document.getElementById("canvas"), at = c.getBoundingClientRect(), told = new Set();
		for (let y = 0; y < at.height; y += 4) {
			c.dispatchEvent(new PointerEvent("pointermove", { clientX: at.left + at.width * 0.15, clientY: at.top + y }));
			told.add(document.getElementById("tip").textContent);
		}
		return [...told].some((s) => s.includes("session 11111111") && s.includes("node-1, fence 1795560876069996")); })()`)
	do(ctx, t, emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}))
	holds(ctx, t, "dark", `getComputedStyle(document.documentElement).backgroundColor === "rgb(19, 21, 24)"`)
	do(ctx, t, chromedp.Evaluate(`dispatchEvent(new Event("beforeprint"))`, nil))
	holds(ctx, t, "print is light and wide", `document.querySelector("#break svg").getAttribute("width") === "1336" &&
		getComputedStyle(document.documentElement).backgroundColor === "rgb(251, 251, 248)"`)
}

// A copied link shows the same view.
func TestLinkShowsTheSameLong(t *testing.T) {
	if testing.Short() {
		t.Skip("in a browser: make long")
	}
	dir, r := saved(t, params(), overlapped(noUntil, ""))
	ctx := tab(browser(t), t, dir, r, "t=4.000-6.000&node=node-1&session=11&broken=1")
	holds(ctx, t, "the link's view", `document.querySelector('select[data-name="node"]').value === "node-1" &&
		document.querySelector('input[data-name="session"]').value === "11" && document.querySelector('input[data-name="broken"]').checked`)
	do(ctx, t, chromedp.Click(`button[aria-label="zoom out"]`, chromedp.ByQuery))
	holds(ctx, t, "it began at the link's moments", `location.hash.includes("t=3.000-7.000")`)
	do(ctx, t, chromedp.Evaluate(`location.hash = "#t=a-b&break=99&node=%3Cscript%3E"`, nil))
	holds(ctx, t, "a link of nonsense shows all", `document.querySelector('select[data-name="node"]').value !== "node-1"`)
}

// A run of 100 nodes and 10 000 sessions can be viewed.
func TestHugeRunInTheBrowserLong(t *testing.T) {
	if testing.Short() {
		t.Skip("in a browser: make long")
	}
	b := browser(t)
	p := params()
	p.Nodes, p.Sessions, p.TTL, p.Duration = 100, 10_000, 30*time.Second, 10*time.Minute
	var events []history.Event
	for e := range hugeRun(p.Nodes, p.Sessions, 10) {
		events = append(events, e)
	}
	dir, _ := saved(t, params(), events)
	ctx := tab(b, t, dir, report.New(report.Meta{}, p, check.Result{}), "")
	took := js[float64](ctx, t, "performance.now()")
	t.Logf("ready %.0f ms after it was opened", took)
	holds(ctx, t, "it says what is left out", `document.getElementById("run").textContent.includes("200 of 10000") || document.getElementById("run").textContent.includes("Of 10000 sessions")`)
	if text := js[string](ctx, t, "document.title"); strings.TrimSpace(text) == "" {
		t.Error("it has no title")
	}
}

// The page of a run that was shrunk also shows the smallest run, and that of two runs the first difference, whatever their nodes print.
func TestOtherRunsOnThePageLong(t *testing.T) {
	if testing.Short() {
		t.Skip("in a browser: make long")
	}
	dir, r := saved(t, params(), overlapped(noUntil, hostile))
	small, smaller := saved(t, params(), overlapped(noUntil, hostile)[:22])
	smaller.Config.Scenario = "shrunk" + hostile
	if err := smaller.Save(small); err != nil {
		t.Fatal(err)
	}
	if err := AddSmaller(dir, small); err != nil {
		t.Fatal(err)
	}
	b := browser(t)
	ctx := tab(b, t, dir, r, "")
	do(ctx, t, chromedp.Click("#smaller", chromedp.ByQuery))
	holds(ctx, t, "the smallest run", `document.querySelector(".cmd code").textContent.endsWith("smaller/shrunk.yaml") && location.hash === "#run=smaller"`)
	do(ctx, t, chromedp.Click(`button[aria-label="zoom in"]`, chromedp.ByQuery))
	holds(ctx, t, "it stays", `/t=.*run=smaller/.test(location.hash)`)
	do(ctx, t, chromedp.Click("#whole", chromedp.ByQuery))
	holds(ctx, t, "and back", `document.querySelector(".cmd code").textContent.startsWith("simulate check")`)
	if js[bool](ctx, t, "'owned' in window") {
		t.Error("what a node said ran")
	}

	p := Parting{With: "a" + hostile, Parts: true, Same: 3, At: 5 * second, Plans: []string{hostile}, Before: []string{hostile}, Here: []string{"here"},
		There: []string{hostile}}
	if err := SaveParting(dir, r, p); err != nil {
		t.Fatal(err)
	}
	address := url.URL{Scheme: "file", Path: filepath.ToSlash(filepath.Join(dir, DiffName))}
	do(ctx, t, chromedp.Navigate(address.String()), chromedp.WaitReady(`html[data-ready="yes"]`, chromedp.ByQuery))
	holds(ctx, t, "where they part", `document.getElementById("parting").textContent.includes("The same for 3 events; at 5.000 s they part.") &&
		!/[\u001b\u202e]/.test(document.getElementById("parting").textContent) && !("owned" in window)`)
	do(ctx, t, chromedp.Click("#parting button", chromedp.ByQuery))
	holds(ctx, t, "the moment", `location.hash.includes("t=2.000-8.000")`)
}
