package redisstore

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/plain"
	"github.com/leasestorm/leasestorm/internal/respguard"
)

// Shown is how text that the server chose is shown: without the password, cut to 100 bytes, and with nothing that is not seen.
func (s *Store) Shown(text string) string { return plain.Name(Hide(s.client, text)) }

// Hide is text of a server's choice without the password of client.
func Hide(client redis.UniversalClient, text string) string {
	_, password := login(client)
	return respguard.Without(text, password)
}

// Info is what a server says of itself. The zero value: INFO is denied.
type Info struct {
	Fields        map[string]string // by name, what stands before the first replica's line
	Acknowledging int               // replicas that acknowledge what it writes; what is attached and never does, as a witness, is none

	password string
}

// Shown is a field as Store.Shown has it.
func (i Info) Shown(name string) string { return respguard.Shown(i.Fields[name], i.password) }

// Known reports whether INFO was answered.
func (i Info) Known() bool { return len(i.Fields) > 0 }

var (
	replicaLine = regexp.MustCompile(`^slave\d+:`)
	// acknowledged is the end of a replica's line, from its port on, which Redis takes below zero, too.
	acknowledged = regexp.MustCompile(`^-?\d+,state=online,offset=0*[1-9]\d*,lag=`)
)

// parseInfo reads INFO. Each replica names the address that its line begins with (REPLCONF ip-address), and Redis copies what it said, line
// ends too. So nothing that stands after the first of these lines has a name: all that is asked for stands before. And replicas are counted
// by how their lines end, which no replica says of another: by an address it can have some counted that acknowledge nothing, up to
// those that are connected, and keep none from being counted.
func parseInfo(text, password string) Info {
	info := Info{Fields: map[string]string{}, password: password}
	replicas := false
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSpace(line)
		if replicas = replicas || replicaLine.MatchString(line); replicas {
			if at := strings.LastIndex(line, ",port="); at >= 0 && acknowledged.MatchString(line[at+len(",port="):]) {
				info.Acknowledging++
			}
			continue
		}
		if name, value, ok := strings.Cut(line, ":"); ok {
			if _, known := info.Fields[name]; !known {
				info.Fields[name] = value
			}
		}
	}
	if connected, err := strconv.Atoi(info.Fields["connected_slaves"]); err == nil {
		info.Acknowledging = min(info.Acknowledging, max(0, connected))
	}
	return info
}
