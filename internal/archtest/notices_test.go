package archtest

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// library matches the heading of one licence in THIRD_PARTY_NOTICES.md: a module, or a part of it with its own licence.
var library = regexp.MustCompile(`(?m)^## (\S+/\S+) (v\S+)$`)

// linkedModules returns the modules, as "path version", of programs and the library on one system.
func linkedModules(t *testing.T, system, programs string) []string {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}{{end}}{{end}}",
		programs, "./lease/...")
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "GOOS="+system, "GOARCH=amd64", "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list for %s: %v", system, err)
	}
	modules := strings.FieldsFunc(string(out), func(r rune) bool { return r == '\n' })
	slices.Sort(modules)
	return slices.Compact(modules)
}

// staleNotices returns the faults of a page of notices: missing modules, and modules that no system links.
func staleNotices(page string, everywhere []string) []string {
	var wrong []string
	named := map[string]bool{}
	for _, m := range library.FindAllStringSubmatch(page, -1) {
		of := "" // the innermost of modules within each other
		for _, module := range everywhere {
			if path, version, _ := strings.Cut(module, " "); version == m[2] && under(m[1], path) && len(module) > len(of) {
				of = module
			}
		}
		if of == "" {
			wrong = append(wrong, m[1]+" "+m[2]+" is named and not linked")
			continue
		}
		named[of] = true
	}
	for _, module := range everywhere {
		if !named[module] {
			wrong = append(wrong, module+" is linked and not named")
		}
	}
	return wrong
}

// THIRD_PARTY_NOTICES.md names exactly the linked modules, in their versions.
func TestNoticesAreUpToDate(t *testing.T) {
	everywhere := slices.Concat(linkedModules(t, "darwin", "./cmd/..."), linkedModules(t, "linux", "./cmd/..."),
		linkedModules(t, "windows", "./cmd/leasectl"))
	slices.Sort(everywhere)
	for _, s := range staleNotices(read(t, "THIRD_PARTY_NOTICES.md"), slices.Compact(everywhere)) {
		t.Errorf("THIRD_PARTY_NOTICES.md: %s; make notices writes it anew", s)
	}
}
