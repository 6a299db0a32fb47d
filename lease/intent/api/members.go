package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"
)

// The members of an intent. All are strings except mAt, a number.
const (
	mType = iota
	mRef
	mProfile
	mSession
	mAt
	mCount
)

type memberNames [mCount]string

type members [mCount]struct {
	given bool
	text  string
}

func (n *memberNames) only(m *members, kind string, allowed ...int) error {
	for i := range m {
		if m[i].given && !slices.Contains(allowed, i) {
			return fmt.Errorf("%s does not have the member %q", kind, n[i])
		}
	}
	return nil
}

// flatObject parses an object of strings and numbers. Unlike encoding/json, it
// refuses inexact, unknown and repeated names.
func (n *memberNames) flatObject(body []byte) (m members, err error) {
	switch {
	case len(bytes.TrimSpace(body)) == 0:
		return m, errors.New("the body is empty")
	case !utf8.Valid(body):
		return m, errors.New("the body is not UTF-8")
	case !json.Valid(body):
		return m, errors.New("the body is not JSON, or something follows it")
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	if first, _ := dec.Token(); first != json.Delim('{') {
		return m, errors.New("the body is not a JSON object")
	}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return m, err
		}
		name, _ := token.(string)
		i := slices.Index(n[:], name)
		switch {
		case i < 0:
			return m, fmt.Errorf("the member %q is not known", clip(name))
		case m[i].given:
			return m, fmt.Errorf("the member %q occurs twice", name)
		}
		if token, err = dec.Token(); err != nil {
			return m, err
		}
		text, isText := token.(string)
		number, isNumber := token.(json.Number)
		if isNumber != (i == mAt) || isText == isNumber {
			return m, fmt.Errorf("the member %q must be a %s", name, map[bool]string{true: "number", false: "string"}[i == mAt])
		}
		m[i].given, m[i].text = true, text+number.String()
	}
	return m, nil
}

func clip(s string) string {
	if len(s) > 40 {
		return s[:40] + "…"
	}
	return s
}
