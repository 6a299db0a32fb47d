package api

import (
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"
)

// lan is the default of Config.AllowedNets.
func lan() []netip.Prefix {
	var nets []netip.Prefix
	for _, text := range []string{"127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16",
		"::1/128", "fc00::/7", "fe80::/10"} {
		nets = append(nets, netip.MustParsePrefix(text))
	}
	return nets
}

const forwardedFor = "X-Forwarded-For"

var (
	errForwarded = errors.New("X-Forwarded-For is malformed")
	errUntrusted = errors.New("the request came through an untrusted proxy; add it to the trusted proxies, and have it send " +
		"X-Forwarded-For")
)

// clientAddr returns the sender of a request: the peer of the connection or, if
// that is a trusted proxy, the rightmost untrusted address of X-Forwarded-For.
// The sender may have forged the addresses further left. clientAddr refuses
// requests forwarded by an untrusted peer.
func clientAddr(r *http.Request, trusted []netip.Prefix) (netip.Addr, error) {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}, errors.New("the peer has no IP address")
	}
	addr := plain(peer.Addr())
	chain := strings.Join(r.Header[forwardedFor], ",")
	if chain == "" || !within(addr, trusted) {
		for _, name := range []string{forwardedFor, "Forwarded", "X-Real-Ip", "Via"} {
			if r.Header.Get(name) != "" {
				return addr, errUntrusted
			}
		}
		return addr, nil
	}
	hops := strings.Split(chain, ",")
	for i := len(hops) - 1; i >= 0 && within(addr, trusted); i-- {
		if addr, err = parseHop(strings.TrimSpace(hops[i])); err != nil {
			return netip.Addr{}, errForwarded
		}
	}
	return addr, nil // the leftmost address, if all are trusted
}

func parseHop(s string) (netip.Addr, error) {
	if a, err := netip.ParseAddr(s); err == nil {
		return plain(a), nil
	}
	ap, err := netip.ParseAddrPort(s)
	return plain(ap.Addr()), err
}

// plain unifies the two forms of an IPv4 address, and drops the zone.
func plain(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

func within(a netip.Addr, nets []netip.Prefix) bool {
	return slices.ContainsFunc(nets, func(n netip.Prefix) bool { return n.Contains(a) })
}

// guard refuses requests by their client's address.
type guard struct {
	allowed, trusted []netip.Prefix // Config.AllowedNets, Config.TrustedProxies
	log              *zap.Logger
	proxied          logLimit // requests through untrusted proxies
}

func (g *guard) check(r *http.Request) *problem {
	addr, err := clientAddr(r, g.trusted)
	if errors.Is(err, errUntrusted) {
		if more, now := g.proxied.due(time.Now()); now {
			g.log.Warn("request through a proxy that is not trusted was refused; if the proxy is yours, add its network to "+
				"TrustedProxies (--trusted-proxies) and have it send X-Forwarded-For", zap.Stringer("proxy", addr), zap.Int("sinceLast", more))
		}
	}
	if err != nil {
		return refused(http.StatusForbidden, "address", err.Error())
	}
	if !within(addr, g.allowed) {
		return refused(http.StatusForbidden, "address", "requests from "+addr.String()+" are not allowed")
	}
	return nil
}
