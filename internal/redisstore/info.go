package redisstore

import (
	"regexp"
	"strings"
)

// Info is what a server says of itself. The zero value: INFO is denied.
type Info struct {
	Fields        map[string]string // by name
	Acknowledging int               // replicas that acknowledge what it writes; one that is attached and never does, as a witness, is none
}

// Known reports whether INFO was answered.
func (i Info) Known() bool { return len(i.Fields) > 0 }

// acknowledges matches the line of a replica that acknowledges.
var acknowledges = regexp.MustCompile(`^slave\d+:.*,state=online,offset=0*[1-9]\d*,lag=`)

func parseInfo(text string) Info {
	info := Info{Fields: map[string]string{}}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if acknowledges.MatchString(line) {
			info.Acknowledging++
		}
		if name, value, ok := strings.Cut(line, ":"); ok {
			info.Fields[name] = value
		}
	}
	return info
}
