package redis

import (
	"strconv"
	"strings"
)

// shaped gives the reply of a command its type in RESP3.
func (f *Front) shaped(name string, args []string, v Reply) Reply {
	if _, refused := v.(Refusal); refused {
		return v
	}
	list, _ := v.([]Reply)
	switch name {
	case "INFO":
		return verbatim(f.server.introduced(v.(string)))
	case "XREADGROUP":
		return shapedRead(v)
	case "SMEMBERS":
		return members(list)
	case "ZSCORE":
		return f.score(v)
	case "ZRANGE":
		if f.resp3 && strings.EqualFold(args[len(args)-1], "WITHSCORES") {
			return f.scores(list)
		}
	case "XINFO":
		groups := make([]Reply, len(list))
		for i := range list {
			groups[i] = dict(list[i].([]Reply))
		}
		return groups
	}
	return v
}

func (f *Front) scores(list []Reply) Reply {
	pairs := make([]Reply, 0, len(list)/2)
	for i := 0; i+1 < len(list); i += 2 {
		pairs = append(pairs, []Reply{list[i], f.score(list[i+1])})
	}
	return pairs
}

func shapedRead(v Reply) Reply {
	list, ok := v.([]Reply)
	switch {
	case v == nil:
		return noList{}
	case !ok:
		return v
	}
	return streams(list)
}

// introduced returns INFO with the fields that no script of ours reads.
func (r *Server) introduced(text string) string {
	role := "master"
	if r.Readonly > 0 {
		role = "slave"
	}
	rest := strings.TrimPrefix(text, "# Server\r\n")
	return "# Server\r\nredis_version:" + version + "\r\nredis_mode:standalone\r\n" + rest + "role:" + role +
		"\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n"
}

// score is a score as RESP3 shows it.
func (f *Front) score(v Reply) Reply {
	text, ok := v.(string)
	n, err := strconv.ParseFloat(text, 64)
	if !ok || !f.resp3 || err != nil {
		return v
	}
	return double(n)
}
