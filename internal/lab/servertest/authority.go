//go:build unix && go1.25

package servertest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
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

// Authority is a certificate authority, with certificates in files.
type Authority struct {
	t    testing.TB
	dir  string
	made int64
}

// NewAuthority returns an authority with certificates of servers, at each Host and each loopback
// address, and of their clients. If this process runs as root, the directory belongs to owner.
func NewAuthority(t testing.TB, owner string) *Authority {
	t.Helper()
	a := &Authority{t: t, dir: Dir(t, owner)}
	a.Renew("server", "client")
	return a
}

// File returns the path of a file. SIDE.pem and SIDE.key have the certificate and the key of one
// side, "server" or "client", and SIDE-ca.pem has the authority that this side trusts.
func (a *Authority) File(name string) string { return filepath.Join(a.dir, name) }

// Renew replaces the files of the sides by certificates of a new authority. Programs that trust the
// old one refuse them.
func (a *Authority) Renew(sides ...string) {
	a.t.Helper()
	ca, caKey := a.sign(a.template("authority"), nil, nil)
	for _, side := range sides {
		c := a.template(side)
		c.DNSNames = []string{"localhost", "*" + domain}
		for last := range byte(16) {
			c.IPAddresses = append(c.IPAddresses, net.IPv4(127, 0, 0, 1+last))
		}
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
		signed, key := a.sign(c, ca, caKey)
		a.write(side+"-ca.pem", "CERTIFICATE", ca.Raw)
		a.write(side+".pem", "CERTIFICATE", signed.Raw)
		a.write(side+".key", "PRIVATE KEY", Must(x509.MarshalPKCS8PrivateKey(key))(a.t))
	}
}

// Rename gives one side the files of another.
func (a *Authority) Rename(from, to string) {
	a.t.Helper()
	for _, suffix := range []string{"-ca.pem", ".pem", ".key"} {
		Do(a.t, os.Rename(a.File(from+suffix), a.File(to+suffix)))
	}
}

func (a *Authority) template(name string) *x509.Certificate {
	a.made++
	return &x509.Certificate{
		SerialNumber: big.NewInt(a.made),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
	}
}

// sign returns the certificate c, signed by an authority. If by is nil, c is a new authority.
func (a *Authority) sign(c, by *x509.Certificate, byKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key := Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(a.t)
	if by == nil {
		c.IsCA, c.BasicConstraintsValid, c.KeyUsage = true, true, x509.KeyUsageCertSign
		by, byKey = c, key
	}
	der := Must(x509.CreateCertificate(rand.Reader, c, by, &key.PublicKey, byKey))(a.t)
	return Must(x509.ParseCertificate(der))(a.t), key
}

// write replaces a file atomically, as tools that renew certificates do.
func (a *Authority) write(name, kind string, der []byte) {
	a.t.Helper()
	path := a.File(name)
	Do(a.t, os.WriteFile(path+".new", pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o644), os.Rename(path+".new", path))
}
