package version

import (
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

func TestVersion(t *testing.T) {
	const commit = "0123456789abcdef0123456789abcdef01234567"
	vcs := []debug.BuildSetting{{Key: "vcs", Value: "git"}, {Key: "vcs.revision", Value: commit}, {Key: "vcs.modified", Value: "false"}}
	dirty := append(vcs[:2:2], debug.BuildSetting{Key: "vcs.modified", Value: "true"})
	for _, tt := range []struct {
		name, stamped, want string
		info                *debug.BuildInfo
	}{
		{"nothing is known", "", "(devel)", nil},
		{"a build without a repository", "", "(devel), go1.26", &debug.BuildInfo{GoVersion: "go1.26"}},
		{
			"go install module@version", "", "v1.2.3, go1.26",
			&debug.BuildInfo{GoVersion: "go1.26", Main: debug.Module{Version: "v1.2.3"}},
		},
		{
			"a checkout", "", "(devel), commit 0123456789ab, go1.26",
			&debug.BuildInfo{GoVersion: "go1.26", Main: debug.Module{Version: "(devel)"}, Settings: vcs},
		},
		{
			"a release from a tree that was changed", "v1.2.3", "v1.2.3, commit 0123456789ab, modified, go1.26",
			&debug.BuildInfo{GoVersion: "go1.26", Main: debug.Module{Version: "(devel)"}, Settings: dirty},
		},
		{
			"a short commit", "", "(devel), commit 0123",
			&debug.BuildInfo{Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "0123"}}},
		},
	} {
		if got := of(tt.info, tt.stamped); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	if s := String(); !strings.HasSuffix(s, runtime.Version()) || strings.HasPrefix(s, ",") {
		t.Errorf("this program: %q", s)
	}
}

// Programs without complete build information have no common source.
func TestSource(t *testing.T) {
	module := debug.Module{Version: "v1.2.3", Sum: "h1:abc="}
	revision := debug.BuildSetting{Key: "vcs.revision", Value: "0123456789abcdef"}
	for name, tt := range map[string]struct {
		want string
		info *debug.BuildInfo
	}{
		"nothing is known":        {"", nil},
		"outside of a repository": {"", &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}},
		"a module":                {"v1.2.3 h1:abc=", &debug.BuildInfo{Main: module}},
		"a commit":                {"0123456789abcdef", &debug.BuildInfo{Settings: []debug.BuildSetting{revision, {Key: "vcs.modified", Value: "false"}}}},
		"a tree that was changed": {"", &debug.BuildInfo{Settings: []debug.BuildSetting{revision, {Key: "vcs.modified", Value: "true"}}}},
	} {
		if got := source(tt.info); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
