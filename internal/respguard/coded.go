package respguard

import (
	"crypto/x509"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// codes are those of servers and sentinels that refuse. Another first word may be the password.
var codes = []string{"ERR", "WRONGPASS", "NOAUTH", "NOPERM", "NOPROTO", "DENIED", "LOADING", "BUSY", "MISCONF", "IDONTKNOW", "MASTERDOWN"}

// Coded returns err without what servers chose to say: of what they refuse with it has the code, as ERR or WRONGPASS, of where they lead
// the address and no name, and nothing of a reply that cannot be read or of a certificate. It is for servers that are told passwords which
// nobody here knows.
func Coded(err error) error {
	text := coded(err)
	if text == err.Error() {
		return err
	}
	return retold(err, text)
}

// coded is the text of Coded. What wraps an error keeps the words before it, which are of this side.
func coded(err error) string {
	switch e := err.(type) { //nolint:errorlint // every error in the tree is looked at
	case redis.Error:
		code, _, _ := strings.Cut(e.Error(), " ")
		if !slices.Contains(codes, code) {
			return "an error"
		}
		return code
	case *net.OpError:
		return codedWay(e)
	case *net.DNSError:
		return "lookup of the name that was told: " + e.Err
	case *net.AddrError:
		return "the address that was told: " + e.Err
	case *net.ParseError:
		return "the address that was told is no " + e.Type
	case *strconv.NumError:
		return e.Func + ": " + e.Err.Error()
	case x509.HostnameError:
		return "x509: the certificate has other names than that of this address"
	case x509.UnknownAuthorityError:
		return "x509: the certificate is signed by an unknown authority"
	case x509.CertificateInvalidError:
		return "x509: the certificate is not valid, or not now"
	case interface{ Unwrap() error }:
		inner := e.Unwrap()
		if inner == nil {
			break
		}
		own, whole := strings.CutSuffix(err.Error(), inner.Error())
		if !whole {
			own = ""
		}
		return own + coded(inner)
	case interface{ Unwrap() []error }:
		var all []string
		for _, one := range e.Unwrap() {
			all = append(all, coded(one))
		}
		return strings.Join(all, "\n")
	}
	text := err.Error()
	if begin := strings.Index(text, "x509: "); begin >= 0 { // of a certificate that cannot be parsed
		return text[:begin] + "x509: the certificate is refused"
	}
	return unquoted(text)
}

// codedWay tells of a connection: the address of the other end is shown where it is one, not a name.
func codedWay(e *net.OpError) string {
	text := e.Op + " " + e.Net
	if e.Addr != nil {
		if at, err := netip.ParseAddrPort(e.Addr.String()); err == nil {
			text += " " + netip.AddrPortFrom(at.Addr().WithZone(""), at.Port()).String() // a zone may be any word
		}
	}
	if e.Err == nil {
		return text
	}
	return text + ": " + coded(e.Err)
}
