package authorities

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"holdfast/embedded/health"
	"holdfast/embedded/pki"
)

// These bound renewals. A key has one record however often it is renewed, and a refused request costs at most one read
// of the store per lookAgain.
const (
	lookAgain  = time.Second // how long the store's last answer counts, even if something was forgotten since
	renewAgain = time.Minute // how long this node does not renew the same key again
)

// Renew calls issue for a holder's next certificate, for the same key, and stores its record. An operator must have
// allowed this when the first one was issued, and must not have forgotten the holder since, which removes the record.
// issue gets the longest allowed validity. The error says why there is no certificate.
func (c *Issued) Renew(ctx context.Context, h pki.Holder, has *x509.Certificate, now time.Time,
	issue func(most time.Duration) (pki.Renewal, error)) (next pki.Renewal, err error) {
	c.renewing.Lock()
	defer c.renewing.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 2*StorePatience)
	defer cancel()
	if err := ctx.Err(); err != nil { // the caller is gone
		return next, err
	}
	key := pki.KeyOf(has)
	of := health.IssuedClient{Role: string(h), Name: has.Subject.CommonName, Renewable: true}
	last := c.ofKey(ctx, of, has)
	switch {
	case last == nil && c.lookError() != nil:
		return next, fmt.Errorf("which certificates may be renewed is not known: %w", c.lookError())
	case last == nil:
		return next, errors.New("the certificate is not known, or was forgotten (`holdfast tls forget`): an " +
			"operator must issue another one")
	case !last.Renewable:
		return next, errors.New("the certificate may not be renewed by its holder: an operator must " +
			"issue one with --renewable")
	}
	life := last.NotAfter.Sub(last.NotBefore)
	if wait := min(renewAgain, life/20) - now.Sub(c.granted[key]); wait > 0 {
		return next, fmt.Errorf("a certificate was issued a moment ago: ask again in %s", wait.Round(time.Second))
	}
	if next, err = issue(life); err != nil {
		return next, err
	}
	for k, at := range c.granted {
		if now.Sub(at) > renewAgain {
			delete(c.granted, k)
		}
	}
	if c.granted == nil {
		c.granted = map[string]time.Time{}
	}
	c.granted[key] = now
	of.Authority = next.Authority
	if err := c.Note(ctx, of, next.Leaf, now); err != nil {
		return pki.Renewal{}, fmt.Errorf("keep a record of the certificate: %w", err)
	}
	return next, nil
}

// ofKey returns the last record of a holder's key, nil if there is none. It reads the store unless that was just done.
func (c *Issued) ofKey(ctx context.Context, of health.IssuedClient, has *x509.Certificate) (last *Client) {
	c.mu.Lock()
	old := time.Since(c.looked) > lookAgain
	c.mu.Unlock()
	if old {
		_, _ = c.Look(ctx) // lookError has the error
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.read {
		if r.Key == pki.KeyOf(has) && r.Of() == of.Of() &&
			(last == nil || r.NotAfter.After(last.NotAfter)) {
			last = &r
		}
	}
	return last
}

func (c *Issued) lookError() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}
