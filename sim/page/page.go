// Package page draws a run. report.html is one file that works offline. It shows which guarantee broke, when, between which instances and
// why, or how close each guarantee came to its limit. Tools read junit.xml and summary.md.
//
// The package reads only a run's saved files. Messages of nodes reach the page as data, and its script sets them as text. The page has
// fixed bounds for terms, faults, events and notes, and names each bound that a run reached.
package page

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"path/filepath"
	"strings"

	"github.com/leasestorm/leasestorm/internal/files"
	"github.com/leasestorm/leasestorm/sim/report"
)

// Names in a run's folder.
const (
	FileName    = "report.html"
	SummaryName = "summary.md"
	JUnitName   = "junit.xml"
	DiffName    = "diff.html"
	SmallerName = "smaller" // folder of the smallest run with the same break
)

//go:embed assets
var assets embed.FS

var scripts = []string{"base.js", "head.js", "fences.js", "beside.js", "break.js", "run.js", "view.js", "loads.js", "main.js"}

// Save writes SummaryName and JUnitName of a judged run into its folder, and the page if asPage is set. It reads the history once; the
// page mentions a truncated or missing history. Save never panics, because the verdict must survive. It returns the page's first
// sentence, what broke and why, in printable text.
func Save(dir string, r report.Report, asPage bool) (sentence string, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("page: what shows %s cannot be made: %v", dir, p)
		}
	}()
	m := build(dir, r)
	for _, p := range m.Head.Sentence {
		sentence += p.Text
	}
	cases, err := junit(r)
	err = write(dir, JUnitName, cases, err)
	text, terr := summary(dir, r, m, asPage)
	err = errors.Join(err, write(dir, SummaryName, text, terr))
	if asPage {
		text, terr = compose(m)
		err = errors.Join(err, write(dir, FileName, text, terr))
	}
	return sentence, err
}

func write(dir, name string, text []byte, err error) error {
	if err == nil {
		err = files.Write(filepath.Join(dir, name), text)
	}
	if err != nil {
		return fmt.Errorf("page: %s cannot be written: %w", filepath.Join(dir, name), err)
	}
	return nil
}

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
