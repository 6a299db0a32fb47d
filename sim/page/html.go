package page

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"html/template"
	"slices"
	"strings"

	"github.com/leasestorm/leasestorm/internal/plain"
	"github.com/leasestorm/leasestorm/sim/check"
)

type plainRun struct {
	*model
	Smaller []string // facts of the smallest run with the same break
	Hidden  bool     // it is the smallest run
}

// plainHTML makes the headline and the table of guarantees, which readers without scripts see too.
func plainHTML(m *model) (string, error) {
	runs := []plainRun{{model: m}}
	if s := m.Smaller; s != nil {
		runs[0].Smaller = append(slices.Clone(s.Head.Facts[2:min(len(s.Head.Facts), 5)]), plain.Count(len(s.Plan), "fault"))
		runs = append(runs, plainRun{model: s, Hidden: true})
	}
	t, err := template.New("").Funcs(template.FuncMap{
		"upper": func(v check.Outcome) string { return strings.ToUpper(string(v)) },
		"glyph": func(v check.Outcome) string {
			return map[check.Outcome]string{check.Pass: "✓", check.Fail: "✕", check.Unknown: "?"}[v]
		},
	}).Parse(asset("plain.html"))
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	err = t.Execute(&b, runs)
	return b.String(), err
}

// By returns the kinds of fault that exercised the guarantee, with their counts, at most the given number.
func (g guarantee) By(most int) string {
	return kindsText(g.Kinds, most, func(k check.KindCount) uint64 { return k.Exercised })
}

// Excuses returns the kinds of fault that excused changes of the guarantee, with their counts.
func (g guarantee) Excuses(most int) string {
	return kindsText(g.Kinds, most, func(k check.KindCount) uint64 { return k.Excused })
}

// Breakers returns the kinds of fault under which the guarantee broke, with their counts.
func (g guarantee) Breakers(most int) string {
	return kindsText(g.Kinds, most, func(k check.KindCount) uint64 { return k.Broken })
}

func kindsText(kinds []check.KindCount, most int, count func(check.KindCount) uint64) string {
	kinds = slices.DeleteFunc(slices.Clone(kinds), func(k check.KindCount) bool { return count(k) == 0 || k.Kind == "none" })
	slices.SortStableFunc(kinds, func(x, y check.KindCount) int { return cmp.Compare(count(y), count(x)) })
	var all []string
	for _, k := range kinds[:min(len(kinds), most)] {
		all = append(all, fmt.Sprint(k.Kind, " ", count(k)))
	}
	text := strings.Join(all, ", ")
	if n := len(kinds) - most; n > 0 {
		text += fmt.Sprintf(" +%d", n)
	}
	return text
}

const (
	barWidth = 150
	barTick  = 105
)

// Filled returns how much of the bar the value fills. A limit of 0 allows nothing.
func (g guarantee) Filled() int64 {
	switch {
	case g.Limit != 0:
		return max(0, min(barWidth, g.Value*barTick/g.Limit))
	case g.Value > 0:
		return barWidth
	}
	return 0
}

func (g guarantee) Tick() int64 {
	if g.Limit == 0 {
		return 1
	}
	return barTick
}

//go:embed assets
var assets embed.FS

var scripts = []string{"base.js", "head.js", "fences.js", "beside.js", "break.js", "run.js", "view.js", "loads.js", "main.js"}

func asset(name string) string {
	text, err := assets.ReadFile("assets/" + name)
	if err != nil { // the name is one of this package's own
		panic(err)
	}
	return string(text)
}

// compose makes the page. Its policy allows only the page's own script, and no loading.
func compose(m *model) ([]byte, error) {
	var packed bytes.Buffer
	zip, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err == nil {
		err = json.NewEncoder(zip).Encode(m)
	}
	if err == nil {
		err = zip.Close()
	}
	if err != nil {
		return nil, err
	}
	var script strings.Builder
	script.WriteString("\"use strict\";\n(() => {\n")
	for _, name := range scripts {
		script.WriteString(asset(name))
	}
	script.WriteString("})();\n")
	plain, err := plainHTML(m)
	if err != nil {
		return nil, err
	}
	style := asset("page.css")
	policy := fmt.Sprintf("default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; "+
		"style-src 'sha256-%s'; script-src 'sha256-%s'", sum(style), sum(script.String()))
	return []byte(strings.NewReplacer(
		"{{policy}}", policy, "{{title}}", html.EscapeString(m.Head.Title), "{{style}}", style, "{{script}}", script.String(), "{{plain}}", plain,
		"{{data}}", base64.StdEncoding.EncodeToString(packed.Bytes()),
	).Replace(asset("page.html"))), nil
}

func sum(text string) string {
	s := sha256.Sum256([]byte(text))
	return base64.StdEncoding.EncodeToString(s[:])
}
