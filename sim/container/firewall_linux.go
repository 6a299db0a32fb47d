package container

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Firewall filters what a container sends and is sent, from outside of it: its rules are in the container's network, of which a program
// in it has no rights to change them, and go with it. Safe for concurrent use.
type Firewall struct {
	name  string
	netns *os.File
	rules *nftables.Conn
}

// Firewall opens the container's network. The error is ErrRights, or ErrEngine or ErrEnded where the container is not there.
func (c *Container) Firewall(ctx context.Context) (*Firewall, error) {
	pid, err := c.PID(ctx)
	if err != nil {
		return nil, err
	}
	netns, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrRights, c.name, err)
	}
	f := &Firewall{name: c.name, netns: netns}
	if f.rules, err = nftables.New(nftables.WithNetNSFd(int(netns.Fd()))); err == nil {
		err = f.Set()
	}
	if err != nil {
		_ = netns.Close()
		return nil, fmt.Errorf("%w: %w", ErrRights, err)
	}
	return f, nil
}

// Close gives up the container's network. Rules that are set stay.
func (f *Firewall) Close() error { return f.netns.Close() }

// Set makes these all that is blocked, in one step.
func (f *Firewall) Set(blocks ...Block) error {
	table := f.rules.AddTable(&nftables.Table{Family: nftables.TableFamilyIPv4, Name: "leasestorm"})
	f.rules.FlushTable(table)
	chain := func(name string, hook *nftables.ChainHook) *nftables.Chain {
		return f.rules.AddChain(&nftables.Chain{
			Table: table, Name: name, Type: nftables.ChainTypeFilter, Hooknum: hook, Priority: nftables.ChainPriorityFilter,
		})
	}
	out, in := chain("out", nftables.ChainHookOutput), chain("in", nftables.ChainHookInput)
	for _, b := range blocks {
		if b.Out {
			f.rules.AddRule(&nftables.Rule{Table: table, Chain: out, Exprs: b.out()})
		}
		if b.In {
			f.rules.AddRule(&nftables.Rule{Table: table, Chain: in, Exprs: b.in()})
		}
	}
	if err := f.rules.Flush(); err != nil {
		return fmt.Errorf("filter of %s: %w", f.name, reason(err))
	}
	return nil
}

// reason is the kernel's, without the socket's words.
func reason(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return err
}

// Places in the headers of IPv4 and TCP.
const (
	ipSource, ipDestination, ipLength = 12, 16, 4
	portSource, portDestination       = 0, 2
	portLength                        = 2
)

func (b Block) out() []expr.Any {
	all := b.match(ipDestination, portDestination)
	if !b.Reset {
		return append(all, &expr.Verdict{Kind: expr.VerdictDrop})
	}
	return append(all, &expr.Reject{Type: unix.NFT_REJECT_TCP_RST})
}

func (b Block) in() []expr.Any {
	// The reset with which a refusal is answered comes from the peer's address too, by the loopback interface, the first of any network.
	loopback := []expr.Any{
		&expr.Meta{Key: expr.MetaKeyIIF, Register: 1},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: binary.NativeEndian.AppendUint32(nil, 1)},
	}
	return append(append(loopback, b.match(ipSource, portSource)...), &expr.Verdict{Kind: expr.VerdictDrop})
}

// match is the peer, at that place of either header.
func (b Block) match(address, port uint32) []expr.Any {
	all := []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: address, Len: ipLength},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: b.Peer.Addr().AsSlice()},
	}
	if b.Peer.Port() == 0 && !b.Reset {
		return all
	}
	all = append(all,
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{unix.IPPROTO_TCP}})
	if b.Peer.Port() == 0 {
		return all
	}
	return append(all,
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: port, Len: portLength},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binary.BigEndian.AppendUint16(nil, b.Peer.Port())})
}
