package poll

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// DecodeSession decodes a session's JSON in the form that the package comment
// documents. Config.Decode replaces DecodeSession.
func DecodeSession(id string, value []byte) (paused bool, err error) {
	var session struct {
		ID       string `json:"id"`
		IsPaused *bool  `json:"isPaused"`
	}
	if err := json.Unmarshal(value, &session); err != nil {
		return false, fmt.Errorf("not the JSON of a session: %w", err)
	}
	if session.ID != id {
		return false, errors.New("its id is not that of its key")
	}
	if session.IsPaused == nil {
		return false, misspelt(value)
	}
	return *session.IsPaused, nil
}

var spelling = strings.NewReplacer("_", "", "-", "", " ", "")

// misspelt refuses an object without isPaused if the name of another member resembles isPaused.
func misspelt(value []byte) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(value, &members); err != nil {
		return fmt.Errorf("not the JSON of a session: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		switch strings.ToLower(spelling.Replace(name)) {
		case "ispaused", "paused":
			if !strings.EqualFold(name, "isPaused") { // an isPaused here is null, the same as missing
				return fmt.Errorf("it has %q and no \"isPaused\": write that, or read this form with Config.Decode", name)
			}
		}
	}
	return nil
}
