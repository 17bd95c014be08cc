package pki

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

const (
	certificateBlock = "CERTIFICATE"
	keyBlock         = "PRIVATE KEY" // PKCS #8, and how the names of the older forms end
)

// ParseCertificates reads a bundle of at least one certificate. Anything else in it is an error, and so is a truncated
// file. If something were dropped silently here, that would only show when a member is refused.
func ParseCertificates(text []byte) ([]*x509.Certificate, error) { return certificates(text, true) }

// CertificatesIn reads the certificates, at least one, of a file that may hold other things, such as the key.
func CertificatesIn(text []byte) ([]*x509.Certificate, error) { return certificates(text, false) }

func certificates(text []byte, alone bool) ([]*x509.Certificate, error) {
	blocks, err := parseBlocks(text)
	if err != nil {
		return nil, err
	}
	var certs []*x509.Certificate
	for _, b := range blocks {
		switch {
		case b.Type != certificateBlock && alone:
			return nil, fmt.Errorf("holds a block %q: only certificates belong here", b.Type)
		case b.Type != certificateBlock:
			continue
		}
		c, err := x509.ParseCertificate(b.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d: %w", len(certs)+1, err)
		}
		certs = append(certs, c)
	}
	if len(certs) == 0 {
		return nil, errors.New("holds no certificate")
	}
	return certs, nil
}

// ParseKeys reads at least one private key, in any of the usual forms. No error quotes the text.
func ParseKeys(text []byte) ([]crypto.Signer, error) {
	blocks, err := parseBlocks(text)
	if err != nil {
		return nil, err
	}
	var keys []crypto.Signer
	for _, b := range blocks {
		switch {
		case b.Type == "EC PARAMETERS": // openssl writes them before the key
		case b.Type == "ENCRYPTED PRIVATE KEY" || b.Headers["DEK-Info"] != "":
			return nil, errors.New("the key is encrypted: give it without a pass phrase, in a file of mode 0600")
		case strings.HasSuffix(b.Type, keyBlock):
			key, err := parseKey(b.Bytes)
			if err != nil {
				return nil, err
			}
			keys = append(keys, key)
		default:
			return nil, fmt.Errorf("holds a block %q: only private keys belong here", b.Type)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("holds no private key")
	}
	return keys, nil
}

func parseKey(der []byte) (crypto.Signer, error) {
	if key, err := x509.ParsePKCS8PrivateKey(der); err == nil {
		if s, ok := key.(crypto.Signer); ok {
			return s, nil
		}
		return nil, fmt.Errorf("a key of type %T cannot sign", key)
	}
	if key, err := x509.ParseECPrivateKey(der); err == nil {
		return key, nil
	}
	if key, err := x509.ParsePKCS1PrivateKey(der); err == nil {
		return key, nil
	}
	return nil, errors.New("the private key is neither PKCS #8, PKCS #1 nor SEC 1")
}

// parseBlocks reads all PEM blocks. It counts them, because pem.Decode skips a block without an end as if it were a
// comment.
func parseBlocks(text []byte) ([]*pem.Block, error) {
	var blocks []*pem.Block
	begun := bytes.Count(text, []byte("-----BEGIN "))
	for {
		b, rest := pem.Decode(text)
		if b == nil {
			break
		}
		blocks, text = append(blocks, b), rest
	}
	if len(blocks) != begun {
		return nil, fmt.Errorf("is damaged or cut short: %d of %d PEM blocks are whole", len(blocks), begun)
	}
	return blocks, nil
}

// Fingerprints returns the [Fingerprint] of each certificate.
func Fingerprints(certs []*x509.Certificate) (all []string) {
	for _, c := range certs {
		all = append(all, Fingerprint(c))
	}
	return all
}

// Pool returns a pool of certificates.
func Pool(certs ...*x509.Certificate) *x509.CertPool {
	pool := x509.NewCertPool()
	for _, c := range certs {
		pool.AddCert(c)
	}
	return pool
}

// EncodeCertificates is the inverse of ParseCertificates.
func EncodeCertificates(certs ...*x509.Certificate) []byte {
	var out []byte
	for _, c := range certs {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: certificateBlock, Bytes: c.Raw})...)
	}
	return out
}

// EncodeKeys is the inverse of ParseKeys. Its result is a secret.
func EncodeKeys(keys ...crypto.Signer) ([]byte, error) {
	var out []byte
	for _, k := range keys {
		der, err := x509.MarshalPKCS8PrivateKey(k)
		if err != nil {
			return nil, fmt.Errorf("encode a private key: %w", err)
		}
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: keyBlock, Bytes: der})...)
	}
	return out, nil
}
