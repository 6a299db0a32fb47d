package monitoring

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"iter"
	"maps"
	"os/exec"
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// values returns the constants of each type that has some, by package and name, from the source. Grafana's types decode any word into an
// enum, and reflection does not know constants.
func values(t *testing.T) map[string][]string {
	t.Helper()
	const sdk = "github.com/grafana/grafana-foundation-sdk/go/"
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.ImportPath}} {{.Dir}}",
		sdk+"common", sdk+"dashboard", sdk+"prometheus", sdk+"timeseries").Output()
	if err != nil {
		t.Fatal(err)
	}
	enums := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		pkg, dir, _ := strings.Cut(strings.TrimSpace(line), " ")
		file, err := parser.ParseFile(token.NewFileSet(), path.Join(dir, "types_gen.go"), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range constants(file) {
			enums[pkg+"."+name] = append(enums[pkg+"."+name], value)
		}
	}
	if len(enums) == 0 {
		t.Fatal("Grafana's types have no constants")
	}
	return enums
}

// constants yields the names of types and the values of their constants.
func constants(file *ast.File) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for _, d := range file.Decls {
			group, ok := d.(*ast.GenDecl)
			if !ok || group.Tok != token.CONST {
				continue
			}
			for _, s := range group.Specs {
				s := s.(*ast.ValueSpec)
				if s.Type != nil && !yield(types.ExprString(s.Type), strings.Trim(types.ExprString(s.Values[0]), `"`)) {
					return
				}
			}
		}
	}
}

// strangers returns the enum values in a decoded document that are none of their type's constants.
func strangers(decoded any, enums map[string][]string) (problems []string) {
	var walk func(path string, v reflect.Value)
	walk = func(path string, v reflect.Value) {
		if known := enums[v.Type().PkgPath()+"."+v.Type().Name()]; known != nil && !slices.Contains(known, fmt.Sprint(v)) {
			problems = append(problems, fmt.Sprintf("%s: %v is none of %s", path, v, strings.Join(known, ", ")))
		}
		switch v.Kind() {
		case reflect.Pointer, reflect.Interface:
			if !v.IsNil() {
				walk(path, v.Elem())
			}
		case reflect.Struct:
			for i := range v.NumField() {
				walk(path+"."+v.Type().Field(i).Name, v.Field(i))
			}
		case reflect.Slice:
			for i := range v.Len() {
				walk(fmt.Sprintf("%s[%d]", path, i), v.Index(i))
			}
		case reflect.Map:
			for _, key := range slices.SortedFunc(maps.Keys(maps.Collect(v.Seq2())), func(a, b reflect.Value) int {
				return strings.Compare(a.String(), b.String())
			}) {
				walk(path+"."+key.String(), v.MapIndex(key))
			}
		}
	}
	walk("dashboard", reflect.ValueOf(decoded))
	return problems
}
