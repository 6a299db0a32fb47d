package real

import (
	"net"
	"strings"
	"testing"

	"github.com/leasestorm/leasestorm/sim/real/proxy"
)

// A node reaches a store through its own proxy, which has the node's network faults.
func TestStoresShareNetworkFaults(t *testing.T) {
	store, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	short := func(err error) { t.Error(err) }
	redis, err := proxy.New("node-1", loopback, store.Addr().String(), 1, 1, short)
	if err != nil {
		t.Fatal(err)
	}
	s := &slot{name: "node-1", run: &run{cfg: Config{Stores: []Store{{Name: "store", Addr: store.Addr().String()}}}}}
	c, err := withStores(redis, s, loopback, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	name, addr, _ := strings.Cut(c.(*storeLines).env[0], "=")
	reached := func() bool {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			err = conn.Close()
		}
		return err == nil
	}
	if name != "LEASESTORM_PROXY_STORE" || addr == c.Addr() || !reached() {
		t.Errorf("%s=%s, reached: %v", name, addr, reached())
	}
	if err := c.Apply(1, proxy.Effect{Cut: true}); err != nil || reached() {
		t.Errorf("the store is reached while the node is cut off (%v)", err)
	}
	if err := c.Heal(1); err != nil || !reached() {
		t.Errorf("the store is not reached after the heal (%v)", err)
	}
}
