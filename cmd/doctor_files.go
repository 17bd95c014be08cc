package cmd

import (
	"fmt"
	"os"
	"slices"
	"time"

	"holdfast/embedded/pki"
)

// file is a certificate or a secret that the configuration names, as the node that needs it finds it.
type file struct {
	Key   string        `json:"key"` // of the configuration
	Path  string        `json:"path"`
	Err   string        `json:"error,omitempty"`
	Mode  os.FileMode   `json:"mode"`
	Certs []certificate `json:"certificates,omitempty"`
	Kind  fileKind      `json:"kind"`
}

// fileKind says what a file is for.
type fileKind string

const (
	ownCertificate fileKind = "certificate" // one that we show, with those that lead to its CA
	authorities    fileKind = "authorities" // any of which signs others' certificates
	secret         fileKind = "secret"
	// one that we show as well, and that holdfast issues and renews at two thirds of its life
	issuedCertificate fileKind = "issued certificate"
)

// certificate is one of those in a file.
type certificate struct {
	Subject string    `json:"subject"`
	From    time.Time `json:"from"`
	Until   time.Time `json:"until"`
}

// certificateFiles are all certificates and secrets that the configuration names, and that were or will be issued.
func certificateFiles(cfg Config) []file {
	var all []file
	own := ownCertificate
	if cfg.TLS.Issues() {
		own = issuedCertificate
	}
	for _, f := range []file{
		{Key: "etcd.cert-file", Path: cfg.Etcd.CertFile, Kind: own},
		{Key: "etcd.trusted-ca-file", Path: cfg.Etcd.TrustedCAFile, Kind: authorities},
		{Key: "etcd.peer-cert-file", Path: cfg.Etcd.PeerCertFile, Kind: own},
		{Key: "etcd.peer-trusted-ca-file", Path: cfg.Etcd.PeerTrustedCAFile, Kind: authorities},
		{Key: "tls.client-ca-file", Path: cfg.TLS.ClientCAFile, Kind: authorities},
		{Key: "tls.peer-ca-file", Path: cfg.TLS.PeerCAFile, Kind: authorities},
		{Key: "tls.client-ca-key-file", Path: cfg.TLS.ClientCAKeyFile, Kind: secret},
		{Key: "tls.peer-ca-key-file", Path: cfg.TLS.PeerCAKeyFile, Kind: secret},
		{Key: "etcd.key-file", Path: cfg.Etcd.KeyFile, Kind: secret},
		{Key: "etcd.peer-key-file", Path: cfg.Etcd.PeerKeyFile, Kind: secret},
		{Key: "gossip.key-file", Path: cfg.Gossip.KeyFile, Kind: secret},
		{Key: "snapshot.identity-file", Path: cfg.Snapshot.IdentityFile, Kind: secret},
	} {
		if f.Path != "" {
			all = append(all, f)
		}
	}
	return all
}

// lookAtFiles looks at all of them.
func lookAtFiles(cfg Config) []file {
	all := certificateFiles(cfg)
	for i := range all {
		if err := all[i].look(); err != nil {
			all[i].Err = err.Error()
		}
	}
	return all
}

func (f *file) look() error {
	info, err := os.Stat(f.Path)
	if err != nil {
		return err
	}
	f.Mode = info.Mode().Perm()
	if f.Kind == secret {
		return nil
	}
	data, err := os.ReadFile(f.Path)
	if err != nil {
		return err
	}
	f.Certs, err = certificates(data)
	return err
}

// certificates returns what a PEM file holds.
func certificates(data []byte) (all []certificate, err error) {
	found, err := pki.CertificatesIn(data)
	for _, c := range found {
		all = append(all, certificate{c.Subject.String(), c.NotBefore, c.NotAfter})
	}
	return all, err
}

const (
	expiresSoon = 30 * 24 * time.Hour
	expiresNow  = 7 * 24 * time.Hour
)

// checkFiles judges the certificates and the secrets of every node.
func checkFiles(e evidence) []finding {
	var out []finding
	count := 0
	for _, n := range e.Nodes {
		if n.Checkup == nil {
			continue
		}
		for _, f := range n.Checkup.Files {
			count++
			if v, ok := f.judge(e.Now); ok {
				v.About = fmt.Sprintf("%s on %s", f.Path, n.Status.Node)
				out = append(out, v)
			}
		}
	}
	if len(out) == 0 {
		text := fmt.Sprintf("%d certificates and keys are readable by us, and by nobody else who should not, and valid for more than 30 days", count)
		if count == 0 {
			text = "the configuration names no certificates and no keys"
		}
		out = append(out, finding{Grade: well, Means: text})
	}
	return out
}

// judge returns what is wrong with a file, if anything.
func (f file) judge(now time.Time) (finding, bool) {
	switch {
	case f.Err != "":
		return finding{Grade: unknown, Means: fmt.Sprintf("%s cannot be read: %s", f.Key, f.Err), Do: "Make the file readable by holdfast's user, or correct the configuration."}, true
	case f.Kind == secret && f.Mode&0o007 != 0:
		return finding{Grade: warned, Means: fmt.Sprintf("%s is open to every user of the machine (mode %04o), and whoever has it can act as this node or read its backups", f.Key, uint32(f.Mode)),
			Do: fmt.Sprintf("`chmod o= %s`, and replace the key if others have accounts there.", f.Path)}, true
	case f.Kind == secret:
		return finding{}, false
	}
	if f.Kind == issuedCertificate {
		return f.Certs[0].overdue(f.Key, now)
	}
	worst := slices.MinFunc(f.Certs, func(a, b certificate) int { return a.left(now).Compare(b.left(now)) })
	v, text := worst.judge(now)
	if v == well {
		return finding{}, false
	}
	others := func(c certificate) bool { v, _ := c.judge(now); return v == well }
	if f.Kind == authorities && v == bad && slices.ContainsFunc(f.Certs, others) {
		v = warned // as while an authority is replaced
	}
	return finding{Grade: v, Means: fmt.Sprintf("%s: %s %s", f.Key, worst.Subject, text), Do: "Put a new certificate in the place of the old one: it is read again at each handshake, but for those of authorities, which need a restart."}, true
}

// overdue judges a certificate that should have been renewed by holdfast itself.
func (c certificate) overdue(key string, now time.Time) (finding, bool) {
	left := c.Until.Sub(now)
	if left > c.Until.Sub(c.From)/4 {
		return finding{}, false
	}
	f := finding{Grade: warned, Means: fmt.Sprintf("%s: %s should have been renewed at two thirds of its life, and expires in %s, at %s; then connections are refused", key, c.Subject, age(c.Until, now), c.Until.UTC().Format(time.RFC3339)),
		Do: "`holdfast status` says why the node could not renew it."}
	if left <= 0 {
		f.Grade, f.Means = bad, fmt.Sprintf("%s: %s expired at %s: whoever checks it refuses the connection", key, c.Subject, c.Until.UTC().Format(time.RFC3339))
	}
	return f, true
}

// left is until when a certificate is of use, which is the past for one that is not valid yet.
func (c certificate) left(now time.Time) time.Time {
	if c.From.After(now) {
		return time.Time{}
	}
	return c.Until
}

func (c certificate) judge(now time.Time) (grade, string) {
	at := c.Until.UTC().Format(time.RFC3339)
	switch left := c.Until.Sub(now); {
	case c.From.After(now):
		return bad, fmt.Sprintf("is valid only from %s on, and is refused until then", c.From.UTC().Format(time.RFC3339))
	case left <= 0:
		return bad, fmt.Sprintf("expired at %s: whoever checks it refuses the connection", at)
	case left < expiresNow:
		return bad, fmt.Sprintf("expires in %s, at %s; then connections are refused", age(c.Until, now), at)
	case left < expiresSoon:
		return warned, fmt.Sprintf("expires in %s, at %s; then connections are refused", age(c.Until, now), at)
	}
	return well, ""
}
