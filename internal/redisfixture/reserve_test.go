package redisfixture

import (
	"errors"
	"net"
	"net/netip"
	"testing"
)

// Nothing else gets a reserved address, although nothing listens on it.
func TestReservedIsLeftOut(t *testing.T) {
	addr, marker, err := Reserve(Loopback)
	if err != nil {
		t.Fatal(err)
	}
	at := netip.MustParseAddrPort(addr)
	port := int(at.Port())
	listen := func(addr string) error {
		l, err := net.Listen("tcp", addr)
		if err == nil {
			err = l.Close()
		}
		return err
	}
	if err := among(port, port+1, Loopback, listen); !errors.Is(err, errNoPort) {
		t.Errorf("%s was given away: %v", addr, err)
	}
	if err := listen(addr); err != nil {
		t.Errorf("its own server cannot listen: %v", err)
	}
	if err := marker.Close(); err != nil {
		t.Error(err)
	}
	if err := among(port, port+1, Loopback, listen); err != nil {
		t.Errorf("it was freed, and nobody gets it: %v", err)
	}
}
