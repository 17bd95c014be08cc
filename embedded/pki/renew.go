package pki

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"time"
)

// Renewal tells a holder what it needs to keep its certificate fresh.
type Renewal struct {
	Bundle      []byte            // the authorities of its kind, as PEM
	Due         bool              // it is time for another certificate
	Certificate []byte            // PEM, for the same key; nil if none was issued
	Leaf        *x509.Certificate // the first of Certificate
	Authority   string            // fingerprint of the authority that signed it
}

// Due reports whether a certificate should be replaced by one of an authority, because two thirds of its life are over,
// or because another authority has signed it.
func Due(has, authority *x509.Certificate, now time.Time) bool {
	return now.After(has.NotBefore.Add(has.NotAfter.Sub(has.NotBefore)*2/3)) ||
		authority != nil && has.CheckSignatureFrom(authority) != nil
}

// KeyOf identifies the key of a certificate by the first 16 hex digits of the SHA-256 of the public key. It stays the
// same when the certificate is renewed.
func KeyOf(c *x509.Certificate) string {
	sum := sha256.Sum256(c.RawSubjectPublicKeyInfo)
	return hex.EncodeToString(sum[:8])
}

// Renewal returns what a holder's certificate needs, and issues nothing.
func (k *Keeper) Renewal(ctx context.Context, h Holder, has *x509.Certificate, now time.Time) (r Renewal, err error) {
	by, bundle, err := k.signerFor(ctx, h)
	if err != nil {
		return r, err
	}
	return Renewal{Bundle: EncodeCertificates(bundle...), Due: Due(has, by.cert, now)}, nil
}

// Renew issues a holder's certificate with the content, key and validity of an earlier one, but for no longer than
// most. The caller has made sure that the holder has the key, and is allowed another certificate.
func (k *Keeper) Renew(ctx context.Context, h Holder, has *x509.Certificate, most time.Duration,
	now time.Time) (r Renewal, err error) {
	by, bundle, err := k.signerFor(ctx, h)
	switch {
	case err != nil:
		return r, err
	case has.Subject.CommonName == "":
		return r, errors.New("the certificate has no common name")
	case !now.Before(has.NotAfter):
		return r, fmt.Errorf("the certificate expired at %s", has.NotAfter.UTC().Format(time.RFC3339))
	case !Due(has, by.cert, now):
		return r, errors.New("it is not time yet: two thirds of its life are not over")
	}
	// This includes the time by which the old certificate was backdated, so that the life never grows.
	life := min(has.NotAfter.Sub(has.NotBefore), most)
	from, _ := lifeFrom(now, life)
	l, err := h.profile(k.id.Zone, has.Subject.CommonName).sign(by, has.PublicKey, from, from.Add(life), now)
	if err != nil {
		return r, err
	}
	return Renewal{Bundle: EncodeCertificates(bundle...), Due: true, Certificate: l.chain(), Leaf: l.Leaf,
		Authority: l.issuer}, nil
}
