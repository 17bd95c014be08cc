package pki

import (
	"crypto/ecdsa"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// What was damaged, removed or opened to others is issued again, and nothing else is.
func TestDamaged(t *testing.T) {
	source := &given{now: newAuthorities(t, "one", ages)}
	k := newKeeper(t, source, nil)
	prepare(t, k, "a")
	good := read(t, k.cfg.Dir)
	other := newKeeper(t, source, nil)
	prepare(t, other, "a")
	foreign := read(t, other.cfg.Dir)["peer.pem"]
	stranger := newKeeper(t, &given{now: newAuthorities(t, "two", ages)}, nil)
	prepare(t, stranger, "a")
	future, err := k.peer("a").issue(source.now.Peers.signers()[0], load(t, k.cfg.Files().Peer).PrivateKey.(*ecdsa.PrivateKey), life, time.Now().Add(24*time.Hour))
	must(t, err)
	ahead, err := future.encode()
	must(t, err)
	peer := k.cfg.Files().Peer
	put := func(text string) func() error { return func() error { return os.WriteFile(peer, []byte(text), 0o600) } }
	key := strings.Index(good["peer.pem"], "-----BEGIN PRIVATE KEY")
	for name, damage := range map[string]func() error{
		"of an unknown authority": put(read(t, stranger.cfg.Dir)["peer.pem"]),
		"removed":                 func() error { return os.Remove(peer) },
		"empty":                   put(""),
		"half-written":            put(good["peer.pem"][:len(good["peer.pem"])-40]),
		"without its key":         put(good["peer.pem"][:key]),
		"key of another":          put(good["peer.pem"][:key] + foreign[strings.Index(foreign, "-----BEGIN PRIVATE KEY"):]),
		"not valid yet":           put(string(ahead)), // the clock was set back
		"others may read":         func() error { return os.Chmod(peer, 0o644) },
		"all is gone":             func() error { return os.RemoveAll(k.cfg.Dir) },
		"a crash left a temporary": func() error {
			left := filepath.Join(k.cfg.Dir, ".new-1")
			return errors.Join(os.WriteFile(left, nil, 0o600), os.Chtimes(left, time.Time{}, time.Now().Add(-2*abandoned)))
		},
		"directory open":     func() error { return os.Chmod(k.cfg.Dir, 0o777) }, //nolint:gosec // to see it closed
		"trust is cut short": func() error { return os.Truncate(k.cfg.Files().PeersCA, 60) },
		"trust is gone":      func() error { return os.Remove(k.cfg.Files().ClientsCA) },
	} {
		for file, text := range good {
			path := filepath.Join(k.cfg.Dir, file)
			must(t, os.MkdirAll(k.cfg.Dir, 0o700))
			must(t, os.WriteFile(path, []byte(text), 0o600))
			must(t, os.Chmod(path, 0o600))
		}
		must(t, damage())
		again := openKeeper(t, k.cfg, source)
		prepare(t, again, "a")
		if got, want := again.Issuer(), Fingerprint(source.now.Peers.Primary); got != want {
			t.Errorf("%s: the leaf is of authority %q, want %q", name, got, want)
		}
		if have := again.now(); !have.good(time.Now(), again.server("a"), again.peer("a")) {
			t.Errorf("%s: no good certificates", name)
		}
		after := read(t, k.cfg.Dir)
		if len(after) != len(good) || after["peers-ca.crt"] != good["peers-ca.crt"] || after["clients-ca.crt"] != good["clients-ca.crt"] {
			t.Errorf("%s: the files are %d, the trust is not as before", name, len(after))
		}
		if name != "all is gone" && after["server.pem"] != good["server.pem"] {
			t.Errorf("%s: the server's certificate was replaced", name)
		}
		if info, err := os.Stat(k.cfg.Dir); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: directory: %v, %v", name, info.Mode(), err)
		}
		for file := range after {
			if info, err := os.Stat(filepath.Join(k.cfg.Dir, file)); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%s: %s: %v, %v", name, file, info.Mode(), err)
			}
		}
	}
}

// If nothing can be written, the error names the place, and a node with good certificates continues with them.
func TestUnwritable(t *testing.T) {
	source := &given{now: newAuthorities(t, "one", ages)}
	blocked := write(t, "file", nil)
	k := newKeeper(t, source, func(c *Config) { c.Dir = filepath.Join(blocked, "tls") })
	if err := k.Prepare(t.Context(), "a"); err == nil || !strings.Contains(err.Error(), blocked) {
		t.Errorf("a directory below a file: %v", err)
	}
	k = newKeeper(t, source, nil)
	prepare(t, k, "a")
	// A directory with the name of a file stands for every reason why a rename fails.
	peer := k.cfg.Files().Peer
	must(t, errors.Join(os.Remove(peer), os.Mkdir(peer, 0o700)))
	again := openKeeper(t, k.cfg, source)
	if err := again.Prepare(t.Context(), "a"); err == nil || !strings.Contains(err.Error(), peer) || !strings.Contains(err.Error(), "write the peer certificate") {
		t.Errorf("%v", err)
	}
	if p := again.Problems(); len(p) == 0 || !strings.Contains(p[0], "could not be kept") {
		t.Errorf("problems: %q", p)
	}
	left, err := filepath.Glob(filepath.Join(k.cfg.Dir, ".new-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// etcd reads the file for the certificate, and again for the key, while it is replaced.
func TestReadWhileRenewed(t *testing.T) {
	k := newKeeper(t, &given{now: newAuthorities(t, "one", ages)}, nil)
	prepare(t, k, "a")
	path, have := k.cfg.Files().Peer, k.now()
	done := make(chan error, 1)
	go func() {
		for range 150 {
			l := have.peer
			if err := k.issue(&l, k.peer("a"), have.known.Peers, k.Issuer(), time.Now(), false); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for reads := 0; ; reads++ {
		select {
		case err := <-done:
			if err != nil || reads == 0 {
				t.Errorf("%v after %d reads", err, reads)
			}
			return
		default:
		}
		if _, err := tls.LoadX509KeyPair(path, path); err != nil {
			t.Errorf("read %d: %v", reads, err)
			<-done
			return
		}
	}
}

// No key is in what a keeper logs and reports, not even of damaged files.
func TestNoKeyIsPrinted(t *testing.T) {
	core, logs := observer.New(zap.DebugLevel)
	k := newKeeper(t, &given{now: newAuthorities(t, "one", ages)}, nil)
	k.lg = zap.New(core)
	prepare(t, k, "a")
	text := read(t, k.cfg.Dir)["peer.pem"]
	_, secret, _ := strings.Cut(text, "PRIVATE KEY-----\n")
	secret, _, _ = strings.Cut(secret, "\n")
	said := []string{}
	for _, damaged := range []string{text[:len(text)-60], "x" + text[1:], strings.Replace(text, secret, secret[:20]+"!"+secret[21:], 1)} {
		must(t, os.WriteFile(k.cfg.Files().Peer, []byte(damaged), 0o600))
		_, err := loadLeaf(k.cfg.Files().Peer, nil)
		_, err2 := ParseKeys([]byte(damaged))
		_, err3 := ParseCertificates([]byte(damaged))
		said = append(said, fmt.Sprint(err, err2, err3))
		prepare(t, k, "a")
		said = append(said, k.Problems()...)
	}
	for _, entry := range logs.All() {
		said = append(said, fmt.Sprint(entry.Message, entry.ContextMap()))
	}
	if logs.FilterMessage("certificate was issued").Len() < 4 {
		t.Errorf("%d certificates were issued", logs.FilterMessage("certificate was issued").Len())
	}
	for _, line := range said {
		if strings.Contains(line, secret[:16]) || strings.Contains(line, secret[len(secret)-16:]) {
			t.Errorf("a part of the key is in %q", line)
		}
	}
}
