package api

import (
	"errors"
	"net/http"
	"net/netip"
	"strings"
)

// hopsMax is how many addresses X-Forwarded-For may hold. A longer chain is nobody's honest path.
const hopsMax = 32

// LAN returns the loopback and private networks: the default of Config.AllowedNets.
func LAN() []netip.Prefix {
	var nets []netip.Prefix
	for _, text := range []string{"127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16",
		"::1/128", "fc00::/7", "fe80::/10"} {
		nets = append(nets, netip.MustParsePrefix(text))
	}
	return nets
}

var errForwarded = errors.New("X-Forwarded-For is malformed")

// clientAddr returns who sends a request: the peer of the connection, or if that is a trusted proxy the rightmost address of
// X-Forwarded-For that is no trusted proxy. What stands left of it was written by that address, so it proves nothing.
func clientAddr(r *http.Request, trusted []netip.Prefix) (netip.Addr, error) {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}, errors.New("the peer has no IP address")
	}
	addr := plain(peer.Addr())
	if !within(addr, trusted) {
		return addr, nil
	}
	// Several header lines are one list, in their order.
	chain := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	if len(chain) > hopsMax {
		return netip.Addr{}, errForwarded
	}
	for i := len(chain) - 1; i >= 0; i-- {
		hop := strings.TrimSpace(chain[i])
		if hop == "" && len(chain) == 1 {
			return addr, nil // no header: the proxy speaks for itself
		}
		if addr, err = parseHop(hop); err != nil {
			return netip.Addr{}, errForwarded
		}
		if !within(addr, trusted) {
			return addr, nil
		}
	}
	return addr, nil // all are trusted: the leftmost is who began
}

// parseHop reads an address, with or without a port.
func parseHop(s string) (netip.Addr, error) {
	if a, err := netip.ParseAddr(s); err == nil {
		return plain(a), nil
	}
	ap, err := netip.ParseAddrPort(s)
	return plain(ap.Addr()), err
}

// plain makes the two ways to write an IPv4 address one, and drops the zone.
func plain(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

func within(a netip.Addr, nets []netip.Prefix) bool {
	for _, n := range nets {
		if n.Contains(a) {
			return true
		}
	}
	return false
}

// guard refuses addresses that are not allowed.
func (h *Handler) guard(r *http.Request) *problem {
	addr, err := clientAddr(r, h.cfg.TrustedProxies)
	if err != nil {
		return refused(http.StatusForbidden, "address", err.Error())
	}
	if !within(addr, h.cfg.AllowedNets) {
		return refused(http.StatusForbidden, "address", "requests from "+addr.String()+" are not allowed")
	}
	return nil
}
