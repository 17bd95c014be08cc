package authorities

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"holdfast/embedded/health"
	"holdfast/embedded/pki"
	"holdfast/snapshot"
)

// Issued has the certificates that `holdfast tls client`, `observer` and `operator` have issued. Each is an object of
// its own in the backup store, client-FINGERPRINT.json below holdfast/<cluster>/. The nodes report when one is about to
// expire. The objects contain no secret. If an object allows it, the holder of its key can get the next certificate
// ([Issued.Renew]).
type Issued struct {
	Store   snapshot.Store
	Cluster string

	renewing sync.Mutex           // one renewal at a time; guards granted
	granted  map[string]time.Time // by key: when this node last renewed it

	mu     sync.Mutex
	read   map[string]Client // by the name of the object; the map never changes
	told   []Client          // the last certificate of each name
	looked time.Time         // when the store was last read
	err    error             // of that read
}

// Client is a certificate that was issued to a client, an observer or an operator.
type Client struct {
	Version int    `json:"version"` // clientRecordVersion
	Cluster string `json:"cluster"`
	Serial  string `json:"serial"`
	Key     string `json:"key,omitempty"` // pki.KeyOf
	health.IssuedClient
}

const (
	clientRecordVersion = 1
	maxClientRecord     = 16 << 10 // bytes
	lookAtClients       = 10 * time.Minute
	maxIssued           = 100                 // in a status
	forgetAfter         = 30 * 24 * time.Hour // after its expiry, a record is removed
)

func (c *Issued) prefix() string { return "holdfast/" + c.Cluster + "/client-" }

// Note stores the record of an issued certificate. It removes the record of the same key that this one replaces, but
// keeps whether it may be renewed. It also removes records of certificates that expired long ago.
func (c *Issued) Note(ctx context.Context, of health.IssuedClient, leaf *x509.Certificate, now time.Time) error {
	of.Fingerprint, of.NotBefore, of.NotAfter = pki.Fingerprint(leaf), leaf.NotBefore, leaf.NotAfter
	r := Client{Version: clientRecordVersion, Cluster: c.Cluster, Serial: leaf.SerialNumber.Text(16), Key: pki.KeyOf(leaf),
		IssuedClient: of}
	if before := c.ofKey(ctx, of, leaf); before != nil {
		r.Renewable = r.Renewable || before.Renewable
	}
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := c.Store.PutIfAbsent(ctx, c.prefix()+r.Fingerprint+".json", append(data, '\n')); err != nil {
		return err
	}
	// If this fails, the next Note tries again.
	_ = c.Forget(ctx, func(o Client) bool {
		return o.Key == r.Key && o.Of() == r.Of() && o.Fingerprint != r.Fingerprint || now.Sub(o.NotAfter) > forgetAfter
	})
	return nil
}

// Forget removes the records for which gone is true.
func (c *Issued) Forget(ctx context.Context, gone func(Client) bool) error {
	_, err := c.Look(ctx)
	c.mu.Lock()
	read := c.read // the map is replaced, never changed
	c.mu.Unlock()
	for name, r := range read {
		if gone(r) {
			err = errors.Join(err, c.Store.Delete(ctx, name))
		}
	}
	return err
}

// Look reads the store, each object once, and returns the last certificate of each name, the first to expire first. The
// error names objects that could not be read; the others are returned nevertheless.
func (c *Issued) Look(ctx context.Context) (told []Client, err error) {
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.looked, c.err = time.Now(), err
	}()
	objects, err := c.Store.List(ctx, c.prefix())
	if err != nil {
		return nil, fmt.Errorf("list the certificates that were issued: %w", err)
	}
	c.mu.Lock()
	before := c.read
	c.mu.Unlock()
	read, last := map[string]Client{}, map[string]Client{}
	for _, o := range objects {
		r, known := before[o.Name]
		if !known {
			var e error
			if r, e = c.get(ctx, o.Name); e != nil {
				err = errors.Join(err, fmt.Errorf("read %s: %w", o.Name, e))
				continue
			}
		}
		read[o.Name] = r
		if r.NotAfter.After(last[r.Of()].NotAfter) {
			last[r.Of()] = r
		}
	}
	told = slices.AppendSeq([]Client{}, maps.Values(last))
	slices.SortFunc(told, func(a, b Client) int {
		return cmp.Or(a.NotAfter.Compare(b.NotAfter), cmp.Compare(a.Name, b.Name))
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read, c.told = read, told
	return told, err
}

func (c *Issued) get(ctx context.Context, name string) (r Client, err error) {
	text, err := snapshot.ReadObject(ctx, c.Store, name, maxClientRecord)
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err == nil && (r.Version != clientRecordVersion || r.Cluster != c.Cluster || r.Name == "" || r.NotAfter.IsZero()) {
		err = fmt.Errorf("it has version %d, cluster %q, client %q", r.Version, r.Cluster, r.Name)
	}
	return r, err
}

// Run looks from time to time, until ctx ends. Errors of the store are reported elsewhere.
func (c *Issued) Run(ctx context.Context) error {
	for {
		asking, cancel := context.WithTimeout(ctx, time.Minute)
		_, _ = c.Look(asking)
		cancel()
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(lookAtClients):
		}
	}
}

// Last returns the last certificate of each name as of the last look, the first to expire first. If they do not all fit
// into a status, it leaves out those that expired first, and then those that expire last.
func (c *Issued) Last() []health.IssuedClient {
	c.mu.Lock()
	defer c.mu.Unlock()
	valid, _ := slices.BinarySearchFunc(c.told, time.Now(), func(r Client, now time.Time) int {
		return r.NotAfter.Compare(now)
	})
	all := c.told[min(valid, max(0, len(c.told)-maxIssued)):]
	return IssuedTo(all[:min(len(all), maxIssued)])
}

// IssuedTo returns the part of the records that health judges.
func IssuedTo(all []Client) (out []health.IssuedClient) {
	for _, r := range all {
		out = append(out, r.IssuedClient)
	}
	return out
}

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

// ofKey returns the last record of a holder's key, nil without one. It reads the store unless that was just done.
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
		if r.Key == pki.KeyOf(has) && r.Of() == of.Of() && (last == nil || r.NotAfter.After(last.NotAfter)) {
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
