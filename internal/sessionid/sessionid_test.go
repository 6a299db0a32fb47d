package sessionid

import (
	"strings"
	"testing"
)

func TestOneFormOfEachID(t *testing.T) {
	const id = "0190a8c2-8f5e-4c2a-9d7e-3b1f6a2c4d5e"
	if !Valid(id) {
		t.Errorf("%s is none", id)
	}
	for _, other := range []string{
		"", "x", strings.ToUpper(id), id[:35] + "E", "{" + id + "}", "urn:uuid:" + id, strings.ReplaceAll(id, "-", ""), id + "\n", id[:35] + "g", id[:35],
	} {
		if Valid(other) {
			t.Errorf("%q is one", other)
		}
	}
}
