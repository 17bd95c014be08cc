package pki

import (
	"bytes"
	"context"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"go.uber.org/zap"

	"holdfast/durable"
)

// sourceWait bounds one question for the authorities. A member that has good certificates starts without an answer.
const sourceWait = 10 * time.Second

// look gets the authorities, reads the files, and does what must be done now. before means that no member reads the
// files, so that a new leaf gets a new key. It returns when to look again, and what went wrong.
func (k *Keeper) look(ctx context.Context, before bool) (time.Time, error) {
	k.looking.Lock()
	defer k.looking.Unlock()
	have := k.now()
	known, err := k.ask(ctx, have.known)
	have.known = known
	err = errors.Join(err, k.issueMesh(&have, time.Now()))
	if have.slot == "" {
		return time.Now().Add(min(time.Minute, k.cfg.LeafLife/20)), k.settle(have, err)
	}
	now := time.Now()
	server, peer := k.server(have.slot), k.peer(have.slot)
	err = errors.Join(err, makeDir(k.cfg.Dir))
	k.read(&have)
	d := decide(now, have.situation(k.cfg.LeafLife, server, peer))
	if known != nil {
		err = errors.Join(err, k.trust(&have, d.Trust), k.issue(&have.peer, peer, known.Peers, d.Peer, now, before),
			k.issue(&have.server, server, known.Clients, d.Server, now, before))
	}
	if err == nil && !have.good(now, server, peer) {
		err = errors.New("there is no good certificate, and no key of an authority to issue one (tls.client-ca-key-file, " +
			"tls.peer-ca-key-file)")
	}
	if err == nil {
		have.failures = 0
		return d.Next, k.settle(have, nil)
	}
	next := d.Next
	if have.comfortable(now) {
		next = now.Add(min(d.Next.Sub(now)<<min(have.failures, 4), 10*time.Minute))
	}
	have.failures++
	return next, k.settle(have, err)
}

// settle stores what a look found and made, and returns its error.
func (k *Keeper) settle(have state, err error) error {
	if err != nil {
		k.series.failures.Inc()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	before := k.have.failing
	if err != nil && (before == nil || before.Error() != err.Error()) {
		k.lg.Warn("certificates could not be kept", zap.Error(err))
	}
	if err == nil && before != nil {
		k.lg.Info("certificate renewal recovered")
	}
	k.have.looked = have.looked
	k.have.failing = err
	return err
}

// good reports whether a member can start with these files.
func (h state) good(now time.Time, server, peer profile) bool {
	return h.server.held(server).usable(now) && h.peer.held(peer).usable(now) && len(h.clients) > 0 && len(h.trusted) > 0
}

// comfortable reports that nothing is urgent: no leaf is missing or in its last tenth.
func (h state) comfortable(now time.Time) bool {
	for _, l := range []*leaf{h.server, h.peer} {
		if l == nil || (&held{From: l.cert.NotBefore, Until: l.cert.NotAfter}).passed(now, 0.9) {
			return false
		}
	}
	return true
}

// answer is what the source has answered.
type answer struct {
	Authorities
	err error
}

// ask returns the current authorities, or the previous ones if there is no answer. A source may hang and ignore its
// context, as a directory on a dead server does. ask waits for it no longer than sourceWait, and does not ask again
// before it has answered.
func (k *Keeper) ask(ctx context.Context, before *Authorities) (*Authorities, error) {
	ctx, cancel := context.WithTimeout(ctx, sourceWait)
	defer cancel()
	got, err := k.question(ctx)
	if err == nil {
		err = got.err
	}
	if err == nil && (len(got.Clients.Bundle) == 0 || len(got.Peers.Bundle) == 0) {
		err = errors.New("an authority without a certificate")
	}
	if err != nil {
		return before, fmt.Errorf("read the authorities: %w", err)
	}
	a := got.Authorities
	if before != nil {
		a.Clients, a.Peers = a.Clients.after(before.Clients), a.Peers.after(before.Peers)
	}
	return &a, nil
}

// question asks the source. An answer that comes too late is outdated, and dropped.
func (k *Keeper) question(ctx context.Context) (answer, error) {
	if k.late != nil {
		select {
		case <-k.late:
			k.late = nil
		default:
			return answer{}, errors.New("there is no answer to the last question yet: check whether the store, or the disk " +
				"of tls.ca-dir, hangs")
		}
	}
	asked := make(chan answer, 1)
	go func() {
		a, err := k.source.Authorities(ctx)
		asked <- answer{a, err}
	}()
	select {
	case a := <-asked:
		return a, nil
	case <-ctx.Done():
		k.late = asked
		return answer{}, fmt.Errorf("no answer: %w", context.Cause(ctx))
	}
}

// read loads the files from the disk, as etcd does. A missing or bad leaf is no error: it is issued again. If a file of
// trusted authorities cannot be read, what was last written counts.
func (k *Keeper) read(have *state) {
	files := k.cfg.Files()
	bundles := map[string]*[]*x509.Certificate{files.ClientsCA: &have.clients, files.PeersCA: &have.trusted}
	for path, certs := range bundles {
		if text, err := durable.Read(path, maxFile); err == nil {
			if found, err := ParseCertificates(text); err == nil {
				*certs = found
			}
		}
	}
	var known Authorities
	if have.known != nil {
		known = *have.known
	}
	for _, f := range []struct {
		name, path string
		leaf       **leaf
		issuers    []*x509.Certificate
	}{
		{serverLeaf, files.Server, &have.server, known.Clients.all(have.clients)},
		{peerLeaf, files.Peer, &have.peer, known.Peers.all(have.trusted)},
	} {
		l, err := loadLeaf(f.path, f.issuers)
		switch {
		case err == nil:
			k.keys[f.name] = l.PrivateKey.(crypto.Signer)
		case have.failures == 0 && (*f.leaf != nil || !errors.Is(err, fs.ErrNotExist)):
			k.lg.Warn("certificate was damaged or removed: it is issued again", zap.Error(err))
		}
		*f.leaf = l
	}
}

// situation returns the input of decide. life is that of the leaves.
func (have state) situation(life time.Duration, server, peer profile) situation {
	s := situation{
		Life: life, Server: have.server.held(server), Peer: have.peer.held(peer),
		Stances: have.stances, Complete: have.complete && have.stances != nil,
		Remembered: map[string]time.Time{},
	}
	for _, c := range have.trusted {
		s.Remembered[Fingerprint(c)] = c.NotAfter
	}
	if have.known == nil {
		return s
	}
	s.Bundle = Fingerprints(have.known.Peers.Bundle)
	s.Clients, s.Peers = signings(have.known.Clients), signings(have.known.Peers)
	return s
}

func signings(a Authority) []signing {
	var all []signing
	for _, s := range a.signers() {
		all = append(all, signing{Fingerprint(s.cert), s.cert.NotAfter})
	}
	return all
}

// trust writes the files of the authorities that the member must trust, if they have changed. They are sorted, so that
// the same authorities always give the same file.
func (k *Keeper) trust(have *state, peers []string) error {
	files := k.cfg.Files()
	byName := map[string]*x509.Certificate{}
	for _, c := range slices.Concat(have.trusted, have.known.Peers.Bundle) {
		byName[Fingerprint(c)] = c
	}
	var trusted []*x509.Certificate
	for _, name := range peers {
		trusted = append(trusted, byName[name])
	}
	clients := slices.Clone(have.known.Clients.Bundle)
	slices.SortFunc(clients, func(a, b *x509.Certificate) int { return bytes.Compare(a.Raw, b.Raw) })
	clients = slices.CompactFunc(clients, (*x509.Certificate).Equal)
	err := errors.Join(k.writeTrust(files.ClientsCA, clients), k.writeTrust(files.PeersCA, trusted))
	if err == nil {
		have.clients, have.trusted = clients, trusted
	}
	return err
}

func (k *Keeper) writeTrust(path string, certs []*x509.Certificate) error {
	text := EncodeCertificates(certs...)
	if old, err := durable.Read(path, maxFile); err == nil && bytes.Equal(old, text) {
		return nil
	}
	if err := durable.WriteFile(path, text); err != nil {
		return err
	}
	k.lg.Info("trusted authorities changed", zap.String("file", path), zap.Strings("authorities", Fingerprints(certs)))
	return nil
}

// issue makes and writes a leaf, signed by the authority with that fingerprint; "" does nothing.
//
// etcd reads the certificate and the key at each handshake, one after the other. With a new key, it could get the
// certificate of one leaf and the key of the next. So while a member runs, a leaf keeps its key.
func (k *Keeper) issue(present **leaf, p profile, a Authority, name string, now time.Time, before bool) error {
	if name == "" {
		return nil
	}
	key := k.keys[p.name]
	if key == nil || before {
		var err error
		if key, err = newKey(); err != nil {
			return err
		}
	}
	l, err := a.issue(p, name, key, k.cfg.LeafLife, now)
	if err != nil {
		return err
	}
	text, err := l.encode()
	if err == nil {
		err = durable.WriteFile(k.cfg.leafFile(p.name), text)
	}
	if err != nil {
		return fmt.Errorf("write the %s certificate: %w", p.name, err)
	}
	*present, k.keys[p.name] = l, key
	k.series.renewals.WithLabelValues(p.name).Inc()
	k.lg.Info("certificate was issued", zap.String("name", p.name), zap.String("authority", l.issuer),
		zap.String("certificate", Fingerprint(l.cert)), zap.Strings("names", p.names()),
		zap.String("not-after", l.cert.NotAfter.UTC().Format(time.RFC3339)),
		zap.String("next", l.held(p).renewal().UTC().Format(time.RFC3339)))
	return nil
}

// maxFile bounds a file that is read, in bytes; a bundle has a few kilobytes.
const maxFile = 1 << 20

// makeDir creates a directory if need be, makes it private, and removes what a crash left behind.
func makeDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if info.Mode().Perm() != 0o700 {
		if err := os.Chmod(dir, 0o700); err != nil { //nolint:gosec // a directory
			return err
		}
	}
	return sweep(dir)
}

// abandoned is the age from which a temporary file counts as left by a crash. Younger ones may still be written, by
// this process or by a command.
const abandoned = time.Hour

// sweep removes temporary files that a crash has left: ours, and those of others that keep files here.
func sweep(dir string) error {
	left, err := filepath.Glob(filepath.Join(dir, durable.Temporary))
	errs := []error{err}
	for _, path := range left {
		info, err := os.Lstat(path)
		if err == nil && time.Since(info.ModTime()) > abandoned {
			err = os.Remove(path)
		}
		if !errors.Is(err, fs.ErrNotExist) { // it was renamed or removed meanwhile
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
