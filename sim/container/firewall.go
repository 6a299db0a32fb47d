package container

import (
	"errors"
	"net/netip"
)

// ErrRights: this program may not filter what a container sends and is sent, or the kernel cannot.
var ErrRights = errors.New("no rights to filter the network of a container")

// Block is what the network does not carry between a container and a peer.
type Block struct {
	Peer netip.AddrPort // port 0: whatever is at that address
	Out  bool           // what the container sends is lost
	In   bool           // what it is sent is lost
	// Reset answers what the container sends with a reset instead of silence, as a firewall does that refuses: its connections break, and
	// it gets no new ones. Only TCP is answered. It goes with Out.
	Reset bool
}
