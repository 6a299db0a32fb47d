package logs

import (
	"bytes"
	"encoding/json"
)

// object is a parsed JSON object. Names are unquoted; values are as written.
type object []field

type field struct{ name, value []byte }

// get returns the value of a field, nil if there is none. Of two fields of one name, the last counts.
func (o object) get(name string) []byte {
	for k := len(o) - 1; k >= 0; k-- {
		if string(o[k].name) == name {
			return o[k].value
		}
	}
	return nil
}

// parse reads an object, whose fields refer to text. It returns false if text is none.
func (o *object) parse(text []byte) bool {
	if o.scan(text) {
		return true
	}
	var all map[string]json.RawMessage
	if json.Unmarshal(text, &all) != nil || all == nil {
		return false
	}
	*o = (*o)[:0]
	for name, value := range all {
		*o = append(*o, field{[]byte(name), value})
	}
	return true
}

// scan reads an object of plain ASCII strings, decimal numbers and literals. It returns false for anything else, valid or not.
func (o *object) scan(text []byte) bool {
	*o = (*o)[:0]
	text = bytes.Trim(text, space)
	if len(text) < 2 || text[0] != '{' || text[len(text)-1] != '}' {
		return false
	}
	rest := bytes.Trim(text[1:len(text)-1], space)
	for len(rest) > 0 {
		name, after := value(rest, ':')
		if len(name) < 2 || name[0] != '"' {
			return false
		}
		v, after := value(after, ',')
		if v == nil {
			return false
		}
		*o = append(*o, field{name[1 : len(name)-1], v})
		if after != nil && len(after) == 0 { // a comma without a field
			return false
		}
		rest = after
	}
	return true
}

const space = " \t\r\n"

// value splits text into its first value and what follows the separator. The value is nil if it is not plain; what follows is nil if text
// ends without a separator.
func value(text []byte, separator byte) (v, after []byte) {
	n := size(text)
	if n == 0 {
		return nil, nil
	}
	v, after = text[:n], text[n:]
	if len(after) > 0 && after[0] != separator {
		after = bytes.TrimLeft(after, space)
	}
	switch {
	case len(after) == 0:
		return v, nil
	case after[0] != separator:
		return nil, nil
	}
	if after = after[1:]; len(after) > 0 && after[0] <= ' ' {
		after = bytes.TrimLeft(after, space)
	}
	return v, after
}

// size returns the length of the plain value with which text begins; 0 if it begins with none.
func size(text []byte) int {
	if len(text) == 0 {
		return 0
	}
	switch c := text[0]; {
	case c == '"':
		for k, c := range text[1:] {
			switch {
			case c == '"':
				return k + 2
			case c < ' ' || c == '\\' || c >= 0x80:
				return 0
			}
		}
	case c >= '0' && c <= '9':
		return number(text)
	default:
		for _, word := range [...]string{"true", "false", "null"} {
			if len(text) >= len(word) && string(text[:len(word)]) == word {
				return len(word)
			}
		}
	}
	return 0
}

// number returns the length of a decimal number without sign and exponent; 0 if it is not valid.
func number(text []byte) int {
	n := digits(text)
	if n > 1 && text[0] == '0' {
		return 0
	}
	if n < len(text) && text[n] == '.' {
		fraction := digits(text[n+1:])
		if fraction == 0 {
			return 0
		}
		n += 1 + fraction
	}
	return n
}

func digits(text []byte) (n int) {
	for n < len(text) && text[n] >= '0' && text[n] <= '9' {
		n++
	}
	return n
}
