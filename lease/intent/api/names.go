package api

import (
	"encoding/json"
	"strings"

	"github.com/leasestorm/leasestorm/lease/intent"
)

// translate sets what puts h.names in the place of the neutral ones in
// documents. No value can contain a member's name with quotes.
func (h *Handler) translate() {
	n := h.names
	sessions := []string{
		`"resource":`, `"` + n.ResourceMember + `":`, `"at":`, `"` + n.AtMember + `":`,
		`"reason":"` + string(intent.ReasonNoSlot) + `"`, `"reason":"` + n.NoSlot + `"`,
	}
	h.sessions = strings.NewReplacer(sessions...)
	h.openAPIText = strings.NewReplacer(append(sessions, `"resource"`, `"`+n.ResourceMember+`"`, `"/intents"`, `"`+n.Path+`/intents"`,
		`"/sessions`, `"`+n.Path+`/sessions`, `"/openapi.json"`, `"`+n.Path+`/openapi.json"`,
		`"start"`, `"`+n.Verb+`start"`, `"stop"`, `"`+n.Verb+`stop"`,
		`scope write`, `scope `+n.Scope+`write`, `scope read`, `scope `+n.Scope+`read`,
		`"`+string(intent.ReasonNoSlot)+`"`, `"`+n.NoSlot+`"`)...)
}

// named returns v, a document about sessions, with h.names.
func (h *Handler) named(v any) any {
	body, err := json.Marshal(v)
	if err != nil {
		return v // writeJSON reports it
	}
	return json.RawMessage(h.sessions.Replace(string(body)))
}
