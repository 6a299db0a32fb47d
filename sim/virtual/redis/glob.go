package redis

// matches reports whether text matches a pattern of Redis: * ? [a-z] [^a] and \ before a plain character.
func matches(pattern, text string) bool {
	for len(pattern) > 0 {
		switch c := pattern[0]; {
		case c == '*':
			return matchesRest(pattern, text)
		case text == "":
			return false
		case c == '?':
			pattern = pattern[1:]
		case c == '[':
			rest, in := class(pattern[1:], text[0])
			if !in {
				return false
			}
			pattern = rest
		default:
			if c == '\\' && len(pattern) > 1 {
				pattern = pattern[1:]
			}
			if pattern[0] != text[0] {
				return false
			}
			pattern = pattern[1:]
		}
		text = text[1:]
	}
	return text == ""
}

func matchesRest(pattern, text string) bool {
	for len(pattern) > 0 && pattern[0] == '*' {
		pattern = pattern[1:]
	}
	if pattern == "" {
		return true
	}
	for i := range len(text) + 1 {
		if matches(pattern, text[i:]) {
			return true
		}
	}
	return false
}

// class reports whether c belongs to the class that p begins with, and returns what follows the class.
func class(p string, c byte) (rest string, in bool) {
	not := len(p) > 0 && p[0] == '^'
	if not {
		p = p[1:]
	}
	found := false
	for len(p) > 0 && p[0] != ']' {
		switch {
		case p[0] == '\\' && len(p) > 1:
			found = found || p[1] == c
			p = p[2:]
		case len(p) > 2 && p[1] == '-':
			low, high := min(p[0], p[2]), max(p[0], p[2])
			found = found || low <= c && c <= high
			p = p[3:]
		default:
			found = found || p[0] == c
			p = p[1:]
		}
	}
	if len(p) > 0 {
		p = p[1:]
	}
	return p, found != not
}
