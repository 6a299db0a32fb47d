package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// TLS has the server speak TLS alone, with a certificate of an authority of its own. Clients trust that; programs do with SSL_CERT_FILE.
func TLS() Option {
	return func(s *Server) { s.authority = newAuthority(s.t) }
}

// CAFile is the certificate of the authority that signed a server's of TLS.
func (s *Server) CAFile() string { return s.authority.path("ca") }

// Certify gives a server of TLS a certificate of its authority that ends at a time. Connections that there are go on.
func (s *Server) Certify(until time.Time) {
	s.t.Helper()
	s.authority.certify(s.t, until)
	s.Do("CONFIG", "SET", "tls-cert-file", s.authority.path("server"))
}

// authority signs the certificates of one server.
type authority struct {
	dir  string
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pool *x509.CertPool
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	a := &authority{dir: t.TempDir(), key: key, pool: x509.NewCertPool()}
	a.cert = a.sign(t, "ca", &x509.Certificate{
		Subject: pkix.Name{CommonName: "redistest"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	})
	a.pool.AddCert(a.cert)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	a.write(t, "key", "PRIVATE KEY", der)
	a.certify(t, time.Now().Add(time.Hour))
	return a
}

func (a *authority) path(name string) string { return filepath.Join(a.dir, name+".pem") }

// certify signs the server's certificate, with the authority's key for both.
func (a *authority) certify(t testing.TB, until time.Time) {
	t.Helper()
	a.sign(t, "server", &x509.Certificate{
		Subject: pkix.Name{CommonName: "redis"}, NotAfter: until, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	})
}

func (a *authority) sign(t testing.TB, name string, c *x509.Certificate) *x509.Certificate {
	t.Helper()
	c.SerialNumber, c.NotBefore = big.NewInt(time.Now().UnixNano()), c.NotAfter.Add(-24*time.Hour)
	by := a.cert
	if by == nil {
		by = c
	}
	der, err := x509.CreateCertificate(rand.Reader, c, by, &a.key.PublicKey, a.key)
	if err == nil {
		c, err = x509.ParseCertificate(der)
	}
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	a.write(t, name, "CERTIFICATE", der)
	return c
}

func (a *authority) write(t testing.TB, name, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(a.path(name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatalf("redistest: %v", err)
	}
}

// args are what a server at the port is told; a nil authority has none.
func (a *authority) args(port int) []string {
	if a == nil {
		return nil
	}
	return []string{
		"--port", "0", "--tls-port", strconv.Itoa(port), "--tls-cert-file", a.path("server"), "--tls-key-file", a.path("key"),
		"--tls-ca-cert-file", a.path("ca"), "--tls-auth-clients", "no",
	}
}

func (a *authority) config() *tls.Config {
	if a == nil {
		return nil
	}
	return &tls.Config{RootCAs: a.pool, MinVersion: tls.VersionTLS12}
}
