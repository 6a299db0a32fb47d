package redisstore

import (
	"regexp"
	"strings"
)

// Info is a server's INFO. The zero value means that INFO is denied.
type Info struct {
	Fields        map[string]string
	Acknowledging int // attached replicas that acknowledge writes; a witness never does
}

// Known reports whether INFO was answered.
func (i Info) Known() bool { return len(i.Fields) > 0 }

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
