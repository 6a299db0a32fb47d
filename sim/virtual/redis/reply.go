package redis

// Reply is nil, int64, string, status, []reply or a refusal.
type Reply any

type status string

type Refusal string

func (r Refusal) Error() string { return string(r) }

// Plain returns a reply without its types.
func Plain(v Reply) any {
	switch v := v.(type) {
	case status:
		return string(v)
	case []Reply:
		all := make([]any, len(v))
		for i := range v {
			all[i] = Plain(v[i])
		}
		return all
	}
	return v
}

const (
	textWrongType  = "WRONGTYPE Operation against a key holding the wrong kind of value"
	textNotInteger = "ERR value is not an integer or out of range"
	textSyntax     = "ERR syntax error"
)

func texts(words []string) []Reply {
	out := make([]Reply, len(words))
	for i, word := range words {
		out[i] = word
	}
	return out
}
