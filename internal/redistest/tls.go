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
	"testing"
	"time"
)

// authority signs the certificates of one server. Both share one key.
type authority struct {
	t    testing.TB
	dir  string
	key  *ecdsa.PrivateKey
	self *x509.Certificate
	pool *x509.CertPool
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	a := &authority{t: t, dir: t.TempDir(), key: key, pool: x509.NewCertPool(), self: &x509.Certificate{
		Subject: pkix.Name{CommonName: "redistest"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}}
	a.write("key", "PRIVATE KEY", der)
	a.pool.AppendCertsFromPEM(a.sign("ca", a.self))
	a.certify(time.Now().Add(time.Hour))
	return a
}

func (a *authority) path(name string) string { return filepath.Join(a.dir, name+".pem") }

func (a *authority) certify(until time.Time) {
	a.t.Helper()
	a.sign("server", &x509.Certificate{
		Subject: pkix.Name{CommonName: "redis"}, NotAfter: until, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	})
}

func (a *authority) sign(name string, c *x509.Certificate) []byte {
	a.t.Helper()
	c.SerialNumber, c.NotBefore = big.NewInt(time.Now().UnixNano()), c.NotAfter.Add(-24*time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, c, a.self, &a.key.PublicKey, a.key)
	if err != nil {
		a.t.Fatalf("redistest: %v", err)
	}
	return a.write(name, "CERTIFICATE", der)
}

func (a *authority) write(name, kind string, der []byte) []byte {
	a.t.Helper()
	text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	if err := os.WriteFile(a.path(name), text, 0o600); err != nil {
		a.t.Fatalf("redistest: %v", err)
	}
	return text
}

func (a *authority) args(port string) []string {
	if a == nil {
		return nil
	}
	return []string{
		"--port", "0", "--tls-port", port, "--tls-cert-file", a.path("server"), "--tls-key-file", a.path("key"),
		"--tls-ca-cert-file", a.path("ca"), "--tls-auth-clients", "no",
	}
}

func (a *authority) config() *tls.Config {
	if a == nil {
		return nil
	}
	return &tls.Config{RootCAs: a.pool, MinVersion: tls.VersionTLS12}
}
