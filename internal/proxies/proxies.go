// Package proxies reads the networks of trusted proxies.
package proxies

import (
	"fmt"
	"net/netip"
	"strings"
)

// Parse parses comma-separated networks such as 10.0.0.1/32, and checks them.
func Parse(text string) (nets []netip.Prefix, err error) {
	if text == "" {
		return nil, nil
	}
	for word := range strings.SplitSeq(text, ",") {
		n, err := netip.ParsePrefix(strings.TrimSpace(word))
		if err != nil {
			return nil, fmt.Errorf("%q is not a network such as 10.0.0.1/32", word)
		}
		nets = append(nets, n)
	}
	return nets, Check(nets)
}

// Check refuses networks that are wider than 10.0.0.0/8 and fc00::/7, whose hosts could claim any address, and IPv4 networks written as
// IPv6.
func Check(nets []netip.Prefix) error {
	for _, n := range nets {
		if a := n.Addr(); a.Is4() && n.Bits() >= 8 || a.Is6() && !a.Is4In6() && n.Bits() >= 7 {
			continue
		}
		return fmt.Errorf("the network %v is not one of proxies: it is wider than any private network (10.0.0.0/8, fc00::/7), or an IPv4 "+
			"network written as IPv6; name the proxies' addresses", n)
	}
	return nil
}
