package command

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
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// startTLS starts a server that speaks TLS and wants client certificates. Its own
// certificate is for redis.test.
func startTLS(ts *testscript.TestScript) {
	to := certificates{ts.Check, ts.MkAbs}
	ca := to.certify("ca", nil)
	to.certify("server", ca)
	to.certify("client", ca)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	_, port, err := net.SplitHostPort(l.Addr().String())
	ts.Check(err)
	ts.Check(l.Close())
	s, err := redistest.Launch(redistest.WithArgs("--tls-port", port, "--tls-ca-cert-file", ts.MkAbs("ca.crt"),
		"--tls-cert-file", ts.MkAbs("server.crt"), "--tls-key-file", ts.MkAbs("server.key"),
		"--unixsocket", ts.MkAbs("sock")))
	ts.Check(err)
	ts.Defer(s.Stop)
	ts.Setenv("TLSADDR", "127.0.0.1:"+port)
}

// certificates is where certificates are written.
type certificates struct {
	check func(error)
	path  func(name string) string
}

// signer is a CA.
type signer struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// certify writes NAME.crt and NAME.key, signed by ca, or by itself as a CA.
func (c certificates) certify(name string, ca *signer) *signer {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	c.check(err)
	now := time.Now()
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{"redis.test"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour), IsCA: ca == nil, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	own := &signer{cert, key}
	if ca == nil {
		cert.KeyUsage = x509.KeyUsageCertSign
		ca = own
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, ca.cert, key.Public(), ca.key)
	c.check(err)
	secret, err := x509.MarshalECPrivateKey(key)
	c.check(err)
	for file, block := range map[string]*pem.Block{
		name + ".crt": {Type: "CERTIFICATE", Bytes: der}, name + ".key": {Type: "EC PRIVATE KEY", Bytes: secret},
	} {
		c.check(os.WriteFile(c.path(file), pem.EncodeToMemory(block), 0o644))
	}
	return own
}
