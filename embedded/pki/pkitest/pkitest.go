// Package pkitest makes certificates for tests, also such as holdfast itself would never make. They are trusted nowhere
// else: it imports nothing of ours, so that a test of [pki] may use it.
package pkitest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"os"
	"testing"
	"time"
)

// Authority makes an authority.
func Authority(t testing.TB, name string) *tls.Certificate {
	t.Helper()
	return Sign(t, nil, x509.Certificate{Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign})
}

// Sign makes a key and a certificate that an authority has signed, or with nil the key itself. Unless of says
// otherwise, it is valid from an hour ago for two hours, for servers and clients.
func Sign(t testing.TB, authority *tls.Certificate, of x509.Certificate) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if of.NotBefore.IsZero() {
		of.NotBefore = time.Now().Add(-time.Hour)
	}
	if of.NotAfter.IsZero() {
		of.NotAfter = time.Now().Add(time.Hour)
	}
	if of.ExtKeyUsage == nil && !of.IsCA {
		of.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	}
	if authority == nil {
		authority = &tls.Certificate{Leaf: &of, PrivateKey: key}
	}
	der, err := x509.CreateCertificate(rand.Reader, &of, authority.Leaf, key.Public(), authority.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// Encode returns a certificate and its key as PEM.
func Encode(t testing.TB, pair *tls.Certificate) (cert, key []byte) {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// Write writes a certificate and its key to files, with private modes.
func Write(t testing.TB, pair *tls.Certificate, certFile, keyFile string) {
	t.Helper()
	cert, key := Encode(t, pair)
	for file, text := range map[string][]byte{certFile: cert, keyFile: key} {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
