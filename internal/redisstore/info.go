package redisstore

import (
	"context"
	"regexp"
	"strings"
	"time"
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

func (s *conn) info(ctx context.Context, sections ...string) (Info, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	server, err := s.server(ctx)
	if err != nil {
		return Info{}, err
	}
	text, err := server.Info(ctx, sections...).Result()
	if err != nil {
		return Info{}, err
	}
	return parseInfo(text), nil
}

func (s *conn) time(ctx context.Context) (time.Time, error) {
	server, err := s.server(ctx)
	if err != nil {
		return time.Time{}, Diagnose(err)
	}
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	now, err := server.Time(ctx).Result()
	if err != nil {
		return now, Diagnose(err)
	}
	return now, nil
}
