package poll

import (
	"encoding/json"
	"strings"
	"testing"
)

// FuzzSession reads any value of a session's key. Only an object with this session's ID is polled or paused, and a session in the
// documented form is read correctly.
func FuzzSession(f *testing.F) {
	const id = "0190a8c2-8f5e-7c2a-9d7e-3b1f6a2c4d5e"
	for _, value := range []string{
		`{"id":"` + id + `","isPaused":false}`, `{"id":"` + id + `","isPaused":true,"more":[{}]}`, `{"id":"` + id + `"}`, `{"id":"x","isPaused":false}`,
		`{"id":"` + id + `","is_paused":false}`, `{"id":"` + id + `","isPaused":null}`, `{"ID":"` + id + `","ISPAUSED":false}`, `[]`, `null`, ``, "\xff",
		`{"id":"` + id + `","isPaused":0}`, `{"id":"` + id + `","isPaused":true,"isPaused":false}`,
	} {
		f.Add(id, []byte(value))
	}
	f.Fuzz(func(t *testing.T, id string, value []byte) {
		paused, err := DecodeSession(id, value)
		if err == nil {
			var members map[string]any
			if err := json.Unmarshal(value, &members); err != nil {
				t.Fatalf("%q is taken for a session, and is no object: %v", value, err)
			}
			named, said, silent := id == "", false, true
			for name, v := range members {
				named = named || strings.EqualFold(name, "id") && v == id
				if strings.EqualFold(name, "isPaused") {
					said, silent = said || v == paused, silent && v == nil
				}
			}
			if !named || !said && (paused || !silent) {
				t.Fatalf("%q is taken for the session %q, paused %v", value, id, paused)
			}
		}
		for _, want := range []bool{false, true} {
			written, _ := json.Marshal(map[string]any{"id": strings.ToValidUTF8(id, ""), "isPaused": want})
			if got, err := DecodeSession(strings.ToValidUTF8(id, ""), written); err != nil || got != want {
				t.Fatalf("%q: paused %v, %v", written, got, err)
			}
		}
	})
}
