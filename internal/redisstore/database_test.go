package redisstore

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// A fleet receives only the notices of its own database, although Redis' channels are global. The ACL line names the same channel.
func TestChannelIsOfTheDatabase(t *testing.T) {
	for _, tt := range []struct {
		client  redis.UniversalClient
		channel string
		want    string
	}{
		{redis.NewClient(&redis.Options{}), "", "poll:notify"},
		{redis.NewClient(&redis.Options{DB: 1}), "", "poll:notify:1"},
		{redis.NewClient(&redis.Options{DB: 12}), "mine", "mine:12"},
		{redis.NewFailoverClient(&redis.FailoverOptions{SentinelAddrs: []string{"127.0.0.1:1"}, DB: 2}), "", "poll:notify:2"},
		{redis.NewClusterClient(&redis.ClusterOptions{}), "{a}n", "{a}n"},
	} {
		s, err := New(tt.client, Options{LeasePrefix: "{a}l:", NodePrefix: "{a}:", EpochKey: "{a}e", Channel: tt.channel})
		if err != nil {
			t.Fatal(err)
		}
		line := " &" + tt.want + " "
		if s.Options().Channel != tt.want || !strings.Contains(s.Line(Use{}), line) {
			t.Errorf("channel %s, want %s: %s", s.Options().Channel, tt.want, s.Line(Use{}))
		}
		_, _ = s.Close(), tt.client.Close()
	}
}
