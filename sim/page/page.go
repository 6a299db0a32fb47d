// Package page draws a run: report.html, one file that shows without a network which promise broke, when, between whom and why, or
// how near each came to its limit; and what tools read, junit.xml and summary.md.
//
// It reads a run's saved files only. What a node said reaches the page as data, and its script sets it as text. Terms, faults, events and
// notes are kept up to fixed bounds, which the page names where they were reached.
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
	SmallerName = "smaller" // the folder of the smallest run that breaks the same
)

//go:embed assets
var assets embed.FS

// scripts are the page's, in the order in which they are put together.
var scripts = []string{"base.js", "head.js", "fences.js", "beside.js", "break.js", "run.js", "view.js", "loads.js", "main.js"}

// Save reads a judged run once and writes into its folder what other tools show of it, SummaryName and JUnitName, and, if asked to, its
// page. A run whose history is cut off or missing has a page that says so. What cannot be made is an error, never a panic: the run's
// verdict must not be lost for it. It returns the page's first sentence: what broke and why, in text that is printable.
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

// write writes a file that was made unless err is set.
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
	if err != nil { // it is embedded, and named in this file
		panic(err)
	}
	return string(text)
}

// compose puts the page together. Its policy lets nothing run but the page's own script, and nothing be loaded.
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
