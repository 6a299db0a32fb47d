package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"
)

// The members that an intent may have. All are strings, but for mStart, which is a number.
const (
	mType = iota
	mRef
	mProfile
	mSession
	mStart
	mCount
)

var memberNames = [mCount]string{mType: "type", mRef: "serviceRef", mProfile: "profile", mSession: "sessionId", mStart: "startMs"}

// members are those of one intent: the value of a string, the digits of a number.
type members [mCount]struct {
	given bool
	text  string
}

// only refuses members other than these.
func (m *members) only(kind string, allowed ...int) error {
	for i := range m {
		if m[i].given && !slices.Contains(allowed, i) {
			return fmt.Errorf("%s does not have the member %q", kind, memberNames[i])
		}
	}
	return nil
}

// flatObject reads an object of strings and numbers. Names are compared exactly; unknown and repeated ones are refused, which
// encoding/json cannot be told for a struct. It is left to say what is JSON, so that what remains is to walk along what is
// known to be well-formed.
func flatObject(body []byte) (m members, err error) {
	rest := space(body)
	switch {
	case len(rest) == 0:
		return m, errors.New("the body is empty")
	case !utf8.Valid(body):
		return m, errors.New("the body is not UTF-8")
	case !json.Valid(body):
		return m, errors.New("the body is not JSON, or something follows it")
	case rest[0] != '{':
		return m, errors.New("the body is not a JSON object")
	}
	rest = space(rest[1:])
	for rest[0] != '}' {
		var name, value string
		if name, rest, err = text(rest); err != nil {
			return m, err
		}
		i := slices.Index(memberNames[:], name)
		switch {
		case i < 0:
			return m, fmt.Errorf("the member %q is not known", clip(name))
		case m[i].given:
			return m, fmt.Errorf("the member %q is there twice", name)
		}
		rest = space(space(rest)[1:]) // after the colon
		switch c := rest[0]; {
		case i == mStart && (c == '-' || c >= '0' && c <= '9'):
			end := bytes.IndexAny(rest, ",} \t\r\n")
			value, rest = string(rest[:end]), rest[end:]
		case i != mStart && c == '"':
			value, rest, err = text(rest)
		default:
			err = fmt.Errorf("the member %q must be a %s", name, map[bool]string{true: "number", false: "string"}[i == mStart])
		}
		if err != nil {
			return m, err
		}
		m[i].given, m[i].text = true, value
		if rest = space(rest); rest[0] == ',' {
			rest = space(rest[1:])
		}
	}
	return m, nil
}

// space cuts JSON's white space off the beginning.
func space(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t' || b[0] == '\r' || b[0] == '\n') {
		b = b[1:]
	}
	return b
}

// text reads the string that b begins with.
func text(b []byte) (value string, rest []byte, err error) {
	plain := true
	end := 1
	for ; b[end] != '"'; end++ {
		if b[end] == '\\' {
			plain = false
			end++
		}
	}
	if plain {
		return string(b[1:end]), b[end+1:], nil
	}
	err = json.Unmarshal(b[:end+1], &value)
	return value, b[end+1:], err
}
