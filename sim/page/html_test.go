package page

import (
	"bytes"
	"html"
	"regexp"
	"strings"
	"testing"
)

// The headline and the table are plain HTML, with the judge's text for each guarantee.
func TestHeadlineAndTableNeedNoScript(t *testing.T) {
	dir, r := saved(t, params(), overlapped(noUntil, hostile))
	static, _, _ := bytes.Cut(rendered(t, dir, r), []byte("<noscript>"))
	words := regexp.MustCompile(`\s+`).ReplaceAllString(html.UnescapeString(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(string(static), " ")), " ")
	for _, want := range []string{
		"✕ FAIL test · seed 7 · 2 nodes", "node-1 and node-2 both trusted the lease of session 11111111 for 2.00 s",
		"judge again simulate check " + dir, "G1* one owner ✕ fail 2000 0 ms of overlap", "both trusted their lease", "? unknown", "exercised by: blackhole 1",
	} {
		if !strings.Contains(words, want) {
			t.Errorf("without a script it does not say %q", want)
		}
	}
}
