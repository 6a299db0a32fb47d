// Package version says what a program was built from.
package version

import (
	"cmp"
	"runtime/debug"
	"strings"
)

// stamped is the version that a release gives itself (make build VERSION=v1.2.3); "": what Go recorded.
var stamped string

// String is the version, the commit, whether the tree held more than it, and the Go that built it, as far as the build recorded
// them. It is one line and never empty.
func String() string {
	info, _ := debug.ReadBuildInfo()
	return of(info, stamped)
}

// commitShown is as much of a commit as Go's own pseudo-versions show.
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

// Source names what the program was built from, so that only programs of the same source have the same: a commit, or a module with the
// hash of its files. It is "" where the build recorded neither, or files that had been changed.
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
