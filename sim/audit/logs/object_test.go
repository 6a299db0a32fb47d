package logs

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// FuzzObject compares the scanner with encoding/json: it finds the same fields, or leaves the text to it.
func FuzzObject(f *testing.F) {
	for _, text := range []string{
		`{}`, ` { } `, `{"a":1}`, `{"a" : "b" , "c":-1.5e3}`, `{"a":1,"a":2}`, `{"a":01}`, `{"a":1.}`, `{"a":1,}`, `{"a":1}{"b":2}`, `{"a":"\u0062"}`,
		`{"é":"é"}`, `{"a":{"b":[1]}}`, `{"a":nullx}`, `{"a":true,"b":false,"c":null}`, `null`, `[]`, `{"a"}`, `{:1}`, `{"a":"b}`, `{"a":1 "b":2}`, "{\"a\":\"\t\"}",
		"{\"\xff\":1}", `{"a":,}`, `{,"a":1}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var o object
		if !o.scan(text) {
			return
		}
		var want map[string]json.RawMessage
		if err := json.Unmarshal(text, &want); err != nil || want == nil {
			t.Fatalf("the scanner takes %q: %v", text, err)
		}
		for name, value := range want {
			if got := o.get(name); string(got) != string(value) {
				t.Errorf("%q in %q is %q, want %q", name, text, got, value)
			}
		}
		for _, f := range o {
			if _, ok := want[string(f.name)]; !ok {
				t.Errorf("%q is no field of %q", f.name, text)
			}
		}
	})
}

// The scanner reads what zap and slog write; encoding/json reads the rest.
func TestObject(t *testing.T) {
	plain := []string{`{}`, `{"a":"b","c":1.5, "d" : true}`, "{\"a\":1}\r"}
	for _, text := range append(plain, `{"a":"\""}`, `{"a":{"b":1}}`, `{"a":-1}`) {
		var o object
		if !o.parse([]byte(text)) || o.scan([]byte(text)) != slices.Contains(plain, text) || strings.Contains(text, "a") && o == nil {
			t.Errorf("%s: %q", text, o)
		}
	}
}
