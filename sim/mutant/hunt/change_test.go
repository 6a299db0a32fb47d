package main

import (
	"slices"
	"testing"
)

// Each operator makes its changes, and none in comments and strings.
func TestChanges(t *testing.T) {
	apply := func(text string, all []change) (got []string) {
		for _, c := range all {
			got = append(got, text[:c.From]+c.New+text[c.To:])
		}
		return got
	}
	const code = "package p\n\nconst c = 1\n\nfunc f(x int) bool {\n\tx--\n\tif x < 7 {\n\t\tg()\n\t}\n\treturn true // 8\n}\n"
	all, err := ofGo(code)
	if err != nil || len(all) != 6 {
		t.Fatalf("%d changes of Go, want 6 (%v)", len(all), err)
	}
	for _, want := range []string{
		"package p\n\nconst c = 1\n\nfunc f(x int) bool {\n\tx--\n\tif !(x < 7) {\n\t\tg()\n\t}\n\treturn true // 8\n}\n",
		"package p\n\nconst c = 1\n\nfunc f(x int) bool {\n\tx--\n\tif x <= 7 {\n\t\tg()\n\t}\n\treturn true // 8\n}\n",
		"package p\n\nconst c = 1\n\nfunc f(x int) bool {\n\tx--\n\tif x < 7 {\n\t\t\n\t}\n\treturn true // 8\n}\n",
	} {
		if got := apply(code, all); !slices.Contains(got, want) {
			t.Errorf("no change gives %s\n%q", want, got)
		}
	}
	const lua = "if a == '1 and 2' then -- 3\n  call('DEL', k)\nend\nlocal n = 4\n"
	all, err = ofLua(lua)
	got := apply(lua, all)
	for _, want := range []string{
		"if not (a == '1 and 2') then -- 3\n  call('DEL', k)\nend\nlocal n = 4\n",
		"if a ~= '1 and 2' then -- 3\n  call('DEL', k)\nend\nlocal n = 4\n",
		"if a == '1 and 2' then -- 3\n  \nend\nlocal n = 4\n",
		"if a == '1 and 2' then -- 3\n  call('DEL', k)\nend\nlocal n = 5\n",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("no change gives %s\n%q", want, got)
		}
	}
	if err != nil || len(all) != 4 {
		t.Errorf("%d changes of Lua, want 4 (%v): %q", len(all), err, got)
	}
}
