package api

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"go.uber.org/zap"
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

// The widest private networks are 10.0.0.0/8 and fc00::/7. A network of proxies that is wider trusts strangers.
const (
	proxyBits4 = 8
	proxyBits6 = 7
)

// ParseProxies reads Config.TrustedProxies: networks, as 10.0.0.1/32, separated by commas; none if text is empty. An IPv4 network
// written as IPv6 (::ffff:10.0.0.1/128) is the IPv4 network. One that is wider than any private network is refused: whoever came
// from there could say that he came from anywhere.
func ParseProxies(text string) (nets []netip.Prefix, err error) {
	if text == "" {
		return nil, nil
	}
	for word := range strings.SplitSeq(text, ",") {
		n, err := netip.ParsePrefix(strings.TrimSpace(word))
		if err != nil {
			return nil, fmt.Errorf("%w: %q is no network; they are wanted as 10.0.0.1/32", ErrConfig, word)
		}
		nets = append(nets, n)
	}
	return proxies(nets)
}

// proxies returns networks as they are compared, and refuses those that trust strangers.
func proxies(given []netip.Prefix) ([]netip.Prefix, error) {
	nets := unmapped(given)
	for i, n := range nets {
		if !n.IsValid() || n.Addr().Is4() && n.Bits() < proxyBits4 || n.Addr().Is6() && n.Bits() < proxyBits6 || n.Addr().Is4In6() {
			return nil, fmt.Errorf("%w: the network %v is no network of proxies: it is wider than any private one (10.0.0.0/8, fc00::/7), "+
				"and who comes from there could say that he came from anywhere; name the proxies' addresses", ErrConfig, given[i])
		}
	}
	return nets, nil
}

// unmapped makes IPv4 networks of those that are written as IPv6, as addresses are compared.
func unmapped(given []netip.Prefix) (nets []netip.Prefix) {
	const mapped = 96 // bits before the IPv4 address
	for _, n := range given {
		if n.Addr().Is4In6() && n.Bits() >= mapped {
			n = netip.PrefixFrom(n.Addr().Unmap(), n.Bits()-mapped)
		}
		nets = append(nets, n)
	}
	return nets
}

// forwardedFor is the one header of proxies that is read.
const forwardedFor = "X-Forwarded-For"

// forwarded reports whether a header is one in which proxies and CDNs say where a request comes from, or that it came through them:
// X-Forwarded-Proto, True-Client-IP, X-Azure-ClientIP, CF-Connecting-IPv6, and however it is spelt, X_Real_IP too. name is canonical.
func forwarded(name string) bool {
	name = http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-"))
	switch name {
	case "Via", "Cdn-Loop", "X-Envoy-External-Address", "Cloudfront-Viewer-Address":
		return true
	}
	if strings.Contains(name, "orwarded") { // also behind a letter, where it is canonical in small ones
		return true
	}
	for _, end := range []string{"-Ip", "-Clientip", "-Socketip", "-Ipv4", "-Ipv6"} {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return false
}

var (
	errForwarded = errors.New("X-Forwarded-For is malformed")
	errUntrusted = errors.New("the request came through a proxy that is not trusted; it is to be among the trusted proxies, and to send " +
		"X-Forwarded-For")
)

// clientAddr returns who sends a request: the peer of the connection, or if that is a trusted proxy the rightmost address of
// X-Forwarded-For that is no trusted proxy. What stands left of it was written by that address, so it proves nothing. A peer that
// is not trusted and says that others sent the request is a proxy that nobody named, or a liar: either way its address is not
// that of the sender.
func clientAddr(r *http.Request, trusted []netip.Prefix) (netip.Addr, error) {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}, errors.New("the peer has no IP address")
	}
	addr := plain(peer.Addr())
	values := r.Header[forwardedFor]
	proxy := within(addr, trusted)
	if !proxy || strings.Join(values, "") == "" {
		for name, said := range r.Header {
			if own := proxy && name == forwardedFor; len(said) > 0 && forwarded(name) && !own { // its own is empty, as if it were not there
				return addr, errUntrusted
			}
		}
	}
	if !proxy {
		return addr, nil
	}
	// Several header lines are one list, in their order.
	chain := strings.Split(strings.Join(values, ","), ",")
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
	if errors.Is(err, errUntrusted) {
		if more, now := h.proxied.due(time.Now()); now {
			h.cfg.Logger.Warn("request through a proxy that is not trusted was refused; if the proxy is yours, add its network to "+
				"TrustedProxies (--trusted-proxies) and have it send X-Forwarded-For", zap.Stringer("proxy", addr), zap.Int("sinceLast", more))
		}
	}
	if err != nil {
		return refused(http.StatusForbidden, "address", err.Error())
	}
	if !within(addr, h.cfg.AllowedNets) {
		return refused(http.StatusForbidden, "address", "requests from "+addr.String()+" are not allowed")
	}
	return nil
}
