package page

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/leasestorm/leasestorm/sim/report"
)

// TestFigures prints the figures of docs/report.md for the saved run that the variable names, which scripts/page makes.
func TestFigures(t *testing.T) {
	dir := os.Getenv("LEASESTORM_PAGE_OF")
	if dir == "" {
		t.Skip("LEASESTORM_PAGE_OF names no run: scripts/page does")
	}
	r, err := report.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx := tab(browser(t), t, dir, r, "")
	info, err := os.Stat(filepath.Join(dir, FileName))
	if err != nil {
		t.Fatal(err)
	}
	var ready, redrawn []float64
	for range 5 {
		do(ctx, t, chromedp.Reload(), chromedp.WaitReady(`html[data-ready="yes"]`, chromedp.ByQuery))
		ready = append(ready, js[float64](ctx, t, `performance.getEntriesByName("ready")[0].startTime`))
		var ms float64
		do(ctx, t, chromedp.Evaluate(`(() => {
			const button = document.querySelector('button[aria-label="zoom in"]'), begin = performance.now();
			button.click();
			return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - begin))));
		})()`, &ms, awaited))
		redrawn = append(redrawn, ms)
	}
	slices.Sort(ready)
	slices.Sort(redrawn)
	t.Logf("figures: %d events, a page of %d kB, usable in %.0f ms (%.0f to %.0f, five openings), zoomed in %.0f ms", r.Stats.Events,
		info.Size()/1000, ready[2], ready[0], ready[4], redrawn[2])
	if info.Size() > 5<<20 {
		t.Errorf("a page of %d bytes: at most 5 MB are allowed", info.Size())
	}
}

func awaited(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }
