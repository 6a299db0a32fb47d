package redis

import "slices"

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
