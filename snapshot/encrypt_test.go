package snapshot_test

import (
	"crypto/ed25519"
	"encoding/pem"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/crypto/ssh"

	"holdfast/snapshot"
)

// keyPair makes an identity of one kind and writes it into a file, as age-keygen and ssh-keygen do.
func keyPair(t testing.TB, kind string) (recipient, file string) {
	t.Helper()
	var secret string
	switch kind {
	case "x25519":
		id, err := age.GenerateX25519Identity()
		must(t, err)
		recipient, secret = id.Recipient().String(), "# a comment\n"+id.String()+"\n"
	case "hybrid":
		id, err := age.GenerateHybridIdentity()
		must(t, err)
		recipient, secret = id.Recipient().String(), id.String()+"\n"
	case "ssh":
		public, private, err := ed25519.GenerateKey(nil)
		must(t, err)
		key, err := ssh.NewPublicKey(public)
		must(t, err)
		block, err := ssh.MarshalPrivateKey(private, "")
		must(t, err)
		recipient, secret = strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))), string(pem.EncodeToMemory(block))
	}
	file = filepath.Join(t.TempDir(), "identity")
	must(t, os.WriteFile(file, []byte(secret), 0o600))
	return recipient, file
}

// TestEncrypted saves to recipients of each kind. Save needs no identity for its full proof; later proofs need one.
func TestEncrypted(t *testing.T) {
	db := smallDB(t)
	for _, kind := range []string{"x25519", "hybrid", "ssh"} {
		t.Run(kind, func(t *testing.T) {
			text, file := keyPair(t, kind)
			_, otherFile := keyPair(t, kind)
			recipients, err := snapshot.ParseRecipients([]string{text})
			must(t, err)
			identities, err := snapshot.ReadIdentities(file)
			must(t, err)
			wrong, err := snapshot.ReadIdentities(otherFile)
			must(t, err)
			root, store, opt := t.TempDir(), snapshot.Store(nil), snapshot.Options{Scratch: t.TempDir(), Recipients: recipients}
			store = snapshot.NewDir(root)
			meta, err := snapshot.Save(t.Context(), store, db.Begin(), identity, opt)
			must(t, err)
			if !meta.Stored.Encrypted || meta.Verified.IsZero() {
				t.Errorf("sidecar: want encrypted and verified, got %+v", meta)
			}
			if got, want := files(t, filepath.Join(root, meta.Name)), []string{"etcd.backup.zst.age", "holdfast.begin.json", "holdfast.meta.json"}; !slices.Equal(got, want) {
				t.Errorf("objects: want %v, got %v", want, got)
			}
			for name, test := range map[string]struct {
				identities []age.Identity
				full       bool
			}{"with the identity": {identities, true}, "without": {nil, false}, "with another": {wrong, false}} {
				opt.Identities = test.identities
				if v, err := snapshot.Verify(t.Context(), store, meta.Name, opt); err != nil || v.Meta != meta || v.Full != test.full {
					t.Errorf("Verify %s: want full %t, got %t, %v", name, test.full, v.Full, err)
				}
				path := filepath.Join(t.TempDir(), "db")
				_, err := snapshot.Fetch(t.Context(), store, meta.Name, path, opt)
				if _, missing := os.Stat(path); test.full != (err == nil) || test.full != (missing == nil) {
					t.Errorf("Fetch %s: got %v", name, err)
				}
				if err != nil && !strings.Contains(err.Error(), "set snapshot.identity-file") {
					t.Errorf("Fetch %s: want advice, got %v", name, err)
				}
			}

			// A backup that cannot be decrypted is still compared with its digest.
			data := filepath.Join(root, meta.Name, "etcd.backup.zst.age")
			b, err := os.ReadFile(data)
			must(t, err)
			b[len(b)-1] ^= 1
			must(t, os.WriteFile(data, b, 0o600))
			opt.Identities = nil
			if v, err := snapshot.Verify(t.Context(), store, meta.Name, opt); err == nil || !strings.Contains(err.Error(), "stored bytes: want sha256") {
				t.Errorf("Verify of changed bytes without an identity: got %+v, %v", v, err)
			}
		})
	}
}

// TestEncryptedNeedsNobody decrypts and decompresses with age and zstd only.
func TestEncryptedNeedsNobody(t *testing.T) {
	id, err := age.GenerateX25519Identity()
	must(t, err)
	root := t.TempDir()
	meta, err := snapshot.Save(t.Context(), snapshot.NewDir(root), smallDB(t).Begin(), identity, snapshot.Options{
		Scratch: t.TempDir(), Recipients: []age.Recipient{id.Recipient()},
	})
	must(t, err)
	f, err := os.Open(filepath.Join(root, meta.Name, "etcd.backup.zst.age"))
	must(t, err)
	defer f.Close()
	plain, err := age.Decrypt(f, id)
	must(t, err)
	dec, err := zstd.NewReader(plain)
	must(t, err)
	defer dec.Close()
	if n, err := io.Copy(io.Discard, dec); err != nil || n != meta.Content.Size+32 {
		t.Errorf("want %d bytes, got %d, %v", meta.Content.Size+32, n, err)
	}
}

func TestParseRecipients(t *testing.T) {
	classic, _ := keyPair(t, "x25519")
	quantum, _ := keyPair(t, "hybrid")
	key, _ := keyPair(t, "ssh")
	if got, err := snapshot.ParseRecipients([]string{classic, " " + key}); err != nil || len(got) != 2 {
		t.Errorf("want two, got %v, %v", got, err)
	}
	for name, test := range map[string]struct {
		texts []string
		want  string
	}{
		"plugin":     {[]string{classic, "age1yubikey1qwt50d05nh5vutpdzmlg5wn80xq5negm4uj9ghv0snvdd3yysf5yw3rhl3t"}, "number 2: must be age1…, age1pq1…, ssh-ed25519 … or ssh-rsa …; plugins are not"},
		"mistyped":   {[]string{classic[:len(classic)-1] + "b"}, "number 1: must be age1…"},
		"empty":      {[]string{""}, "number 1: must be"},
		"ecdsa":      {[]string{"ssh-foo AAAA"}, "number 1: must be"},
		"mixed":      {[]string{classic, quantum}, "all or none must be"},
		"secret key": {[]string{"AGE-SECRET-KEY-1QQQ"}, "secret key: give the public one"},
	} {
		if _, err := snapshot.ParseRecipients(test.texts); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: want an error with %q, got %v", name, test.want, err)
		}
		if _, err := snapshot.ParseRecipients(test.texts); err != nil && strings.Contains(err.Error(), "AGE-SECRET-KEY-1QQQ") {
			t.Errorf("%s: the error shows the key", name)
		}
	}
}

func TestReadIdentities(t *testing.T) {
	_, file := keyPair(t, "x25519")
	for mode, want := range map[os.FileMode]string{0o600: "", 0o400: "", 0o640: "chmod 600", 0o604: "chmod 600", 0o602: "chmod 600"} {
		must(t, os.Chmod(file, mode))
		_, err := snapshot.ReadIdentities(file)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("mode %o: want %q, got %v", mode, want, err)
		}
	}
	must(t, os.Chmod(file, 0o600))
	must(t, os.WriteFile(file, []byte("nothing\n"), 0o600))
	if _, err := snapshot.ReadIdentities(file); err == nil || !strings.Contains(err.Error(), "snapshot.identity-file: read "+file) {
		t.Errorf("no identity: got %v", err)
	}
	if _, err := snapshot.ReadIdentities(file + "x"); err == nil || !strings.Contains(err.Error(), "snapshot.identity-file") {
		t.Errorf("no file: got %v", err)
	}
}

func mustRecipients(t testing.TB) []age.Recipient {
	t.Helper()
	text, _ := keyPair(t, "x25519")
	recipients, err := snapshot.ParseRecipients([]string{text})
	must(t, err)
	return recipients
}
