package api

import (
	"encoding/json"
	"strings"

	"github.com/leasestorm/leasestorm/internal/intentnames"
	"github.com/leasestorm/leasestorm/lease/intent"
)

// documents replaces the neutral names in documents by the application's. No
// value can contain a member's name with quotes.
type documents struct{ sessions, openAPI *strings.Replacer }

func newDocuments(n *intentnames.Names) documents {
	sessions := []string{
		`"resource":`, `"` + n.ResourceMember + `":`, `"at":`, `"` + n.AtMember + `":`,
		`"reason":"` + string(intent.ReasonNoSlot) + `"`, `"reason":"` + n.NoSlot + `"`,
	}
	return documents{strings.NewReplacer(sessions...), strings.NewReplacer(append(sessions,
		`"resource"`, `"`+n.ResourceMember+`"`, `"/intents"`, `"`+n.Path+`/intents"`,
		`"/sessions`, `"`+n.Path+`/sessions`, `"/openapi.json"`, `"`+n.Path+`/openapi.json"`,
		`"start"`, `"`+n.Verb+`start"`, `"stop"`, `"`+n.Verb+`stop"`,
		`scope write`, `scope `+n.Scope+`write`, `scope read`, `scope `+n.Scope+`read`,
		`"`+string(intent.ReasonNoSlot)+`"`, `"`+n.NoSlot+`"`)...)}
}

// named returns v, a document about sessions, with the application's names.
func (p documents) named(v any) any {
	body, err := json.Marshal(v)
	if err != nil {
		return v // writeJSON reports it
	}
	return json.RawMessage(p.sessions.Replace(string(body)))
}
