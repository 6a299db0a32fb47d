package redis

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/leasestorm/leasestorm/internal/core"
)

// Publish sends a message to the connections that have subscribed to its channel, and returns how many did.
func (r *Server) Publish(channel, text string) int64 {
	n := int64(0)
	for _, f := range r.fronts {
		if slices.Contains(f.channels, channel) {
			f.send(push{"message", channel, text}, false)
			n++
		}
		for _, pattern := range f.patterns {
			if matches(pattern, channel) {
				f.send(push{"pmessage", pattern, channel, text}, false)
				n++
			}
		}
	}
	return n
}

// subscriber returns a command that adds to a list of channels or patterns, or removes from it.
func subscriber(word string, list func(*Front) *[]string, adds bool) func(*Front, []string) Reply {
	return func(f *Front, names []string) Reply {
		all := list(f)
		if len(names) == 0 {
			if names = slices.Clone(*all); len(names) == 0 {
				return push{word, nil, f.subscriptions()}
			}
		}
		var out several
		for _, name := range names {
			*all = slices.DeleteFunc(*all, func(o string) bool { return o == name })
			if adds {
				*all = append(*all, name)
			}
			out = append(out, push{word, name, f.subscriptions()})
		}
		return out
	}
}

func (f *Front) subscriptions() Reply { return int64(len(f.channels) + len(f.patterns)) }

func channelsOf(f *Front) *[]string { return &f.channels }
func patternsOf(f *Front) *[]string { return &f.patterns }

// notify publishes a notice of a twin.
func (r *Server) notify(n core.Notice) {
	r.Config.Publish(n)
	if len(r.fronts) > 0 {
		r.Publish(r.Config.Channel, noticeText(&n))
	}
}

// noticeText is what the script that has a twin publishes.
func noticeText(n *core.Notice) string {
	words := []string{map[core.NoticeKind]string{
		core.NoticeTaken: "taken", core.NoticeFreed: "freed", core.NoticeJoined: "joined", core.NoticeLeft: "left", core.NoticeAsked: "asked",
		core.NoticeNumber: "number",
	}[n.Kind], n.From}
	if n.Kind == core.NoticeAsked {
		words = append(words, n.Peers...)
	}
	if n.Kind == core.NoticeNumber {
		words = append(words, strconv.FormatInt(n.Number, 10), n.Epoch)
	}
	for i, id := range n.IDs {
		words = append(words, id)
		if n.Kind == core.NoticeFreed {
			words = append(words, cmp.Or(n.Peers[i], "-"))
		}
	}
	return strings.Join(words, " ")
}
