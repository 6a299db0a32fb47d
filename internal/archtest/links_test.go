package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	linkIn  = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	titleIn = regexp.MustCompile(`(?m)^#+ (.*)$`)
	codeIn  = regexp.MustCompile("(?s)```.*?```")
	markup  = regexp.MustCompile("`|\\[([^]]*)\\]\\([^)]*\\)")
	dropped = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// Links between documents lead to a file, and to a title that it has.
func TestLinksLeadSomewhere(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	top, err := filepath.Glob("../../*.md")
	if err != nil || len(pages) == 0 || len(top) == 0 {
		t.Fatalf("%d pages, %d others, %v", len(pages), len(top), err)
	}
	for _, page := range append(pages, top...) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, link := range linkIn.FindAllStringSubmatch(codeIn.ReplaceAllString(string(text), ""), -1) {
			file, title, _ := strings.Cut(link[1], "#")
			if strings.Contains(link[1], ":") {
				continue // another site
			}
			to := page
			if file != "" {
				to = filepath.Join(filepath.Dir(page), file)
			}
			target, err := os.ReadFile(to)
			if info, failed := os.Stat(to); failed != nil || err != nil && !info.IsDir() {
				t.Errorf("%s: no file %s", page, link[1])
			} else if title != "" && strings.HasSuffix(to, ".md") && !hasTitle(string(target), title) {
				t.Errorf("%s: no title %s", page, link[1])
			}
		}
	}
}

// hasTitle reports whether a page has the title of an anchor, which has dashes for spaces and no punctuation.
func hasTitle(page, anchor string) bool {
	for _, title := range titleIn.FindAllStringSubmatch(codeIn.ReplaceAllString(page, ""), -1) {
		plain := dropped.ReplaceAllString(strings.ToLower(markup.ReplaceAllString(title[1], "$1")), "")
		if strings.ReplaceAll(plain, " ", "-") == anchor {
			return true
		}
	}
	return false
}
