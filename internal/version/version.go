// Package version says from which source a program was built.
package version

import (
	"cmp"
	"runtime/debug"
	"strings"
)

// stamped is the version of a release (make build VERSION=v1.2.3); "": the version that Go recorded.
var stamped string

// String returns the version, the commit, whether the tree had other changes, and the version of Go, as far as the build recorded them. It
// is one line and never empty.
func String() string {
	info, _ := debug.ReadBuildInfo()
	return of(info, stamped)
}

// commitShown is the length of a shown commit, as in Go's pseudo-versions.
const commitShown = 12

func of(info *debug.BuildInfo, stamped string) string {
	if info == nil {
		info = &debug.BuildInfo{}
	}
	parts := []string{cmp.Or(stamped, info.Main.Version, "(devel)")}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if commit := settings["vcs.revision"]; commit != "" {
		parts = append(parts, "commit "+commit[:min(len(commit), commitShown)])
	}
	if settings["vcs.modified"] == "true" {
		parts = append(parts, "modified")
	}
	if info.GoVersion != "" {
		parts = append(parts, info.GoVersion)
	}
	return strings.Join(parts, ", ")
}

// Source identifies the program's source: a commit, or a module with the hash of its files. Only programs of the same source share it. It
// is "" if the build recorded neither, or if files had been changed.
func Source() string {
	info, _ := debug.ReadBuildInfo()
	return source(info)
}

func source(info *debug.BuildInfo) string {
	if info == nil {
		return ""
	}
	commit := ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			return ""
		}
	}
	if commit == "" && info.Main.Sum != "" {
		return info.Main.Version + " " + info.Main.Sum
	}
	return commit
}
