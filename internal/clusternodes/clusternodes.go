// Package clusternodes parses CLUSTER NODES, a server's view of its Redis Cluster.
package clusternodes

import (
	"slices"
	"strconv"
	"strings"
)

// Node is a server of a cluster in another one's view.
type Node struct {
	ID    string
	Addr  string // host:port
	flags []string
	slots []string // such as "5" or "3-9"
}

// Read returns the servers of a CLUSTER NODES reply, in its order. It skips lines that it cannot parse.
func Read(reply string) (nodes []Node) {
	for line := range strings.Lines(reply) {
		words := strings.Fields(line) // ID, address@bus, flags, master, ping, pong, epoch, link, slots
		if len(words) < 8 {
			continue
		}
		addr, _, _ := strings.Cut(words[1], "@")
		nodes = append(nodes, Node{ID: words[0], Addr: addr, flags: strings.Split(words[2], ","), slots: words[8:]})
	}
	return nodes
}

// Is reports whether the node has the flag.
func (n Node) Is(flag string) bool { return slices.Contains(n.flags, flag) }

// Well reports whether the node is reachable: not failed, suspected, in handshake or without an address.
func (n Node) Well() bool {
	return !n.Is("fail") && !n.Is("fail?") && !n.Is("handshake") && !n.Is("noaddr")
}

// Owns reports whether the node owns a slot. A migrating slot belongs to its old owner.
func (n Node) Owns(slot int64) bool {
	return slices.ContainsFunc(n.slots, func(words string) bool {
		from, to, ranged := strings.Cut(words, "-")
		if !ranged {
			to = from
		}
		least, err := strconv.ParseInt(from, 10, 64)
		most, err2 := strconv.ParseInt(to, 10, 64)
		return err == nil && err2 == nil && least <= slot && slot <= most
	})
}
