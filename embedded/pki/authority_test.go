package pki

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// write makes a file of mode 0600 and returns its path.
func write(t testing.TB, name string, text []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must(t, os.WriteFile(path, text, 0o600))
	return path
}

func encode(t testing.TB, a Authority) (bundle, key []byte) {
	t.Helper()
	bundle, key, err := a.Encode()
	must(t, err)
	return bundle, key
}

func TestLoadAuthority(t *testing.T) {
	old, young := newAuthority(t, "old", time.Hour), newAuthority(t, "young", time.Hour)
	bundle, _ := encode(t, old.with(young))
	_, key := encode(t, young)
	a, err := LoadAuthority(write(t, "ca.crt", bundle), write(t, "ca.key", key))
	must(t, err)
	if !a.Primary.Equal(young.Primary) || len(a.Bundle) != 2 {
		t.Errorf("primary is %s of %d, want that of the key", a.Primary.Subject, len(a.Bundle))
	}
	if a, err = LoadAuthority(write(t, "ca.crt", bundle), ""); err != nil || a.Key != nil || a.Primary != nil || len(a.Bundle) != 2 {
		t.Errorf("without a key: %+v, %v", a, err)
	}
	_, oldKey := encode(t, old)
	if a, err = ParseAuthority(bundle, append(key, oldKey...)); err != nil || len(a.signers()) != 2 {
		t.Errorf("with both keys: %d sign, %v", len(a.signers()), err)
	}
}

// Keys are accepted in the forms that openssl and kops write.
func TestForms(t *testing.T) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	must(t, err)
	ecKey, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	must(t, err)
	sec1, err := x509.MarshalECPrivateKey(ecKey)
	must(t, err)
	block := func(kind string, der []byte) []byte {
		return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	}
	params := block("EC PARAMETERS", []byte{6, 5, 0x2b, 0x81, 4, 0, 0x22})
	for name, c := range map[string]struct {
		public, private any
		text            []byte
	}{
		"PKCS #1": {&rsaKey.PublicKey, rsaKey, block("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rsaKey))},
		"SEC 1":   {&ecKey.PublicKey, ecKey, append(params, block("EC PRIVATE KEY", sec1)...)},
	} {
		template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
		der, err := x509.CreateCertificate(rand.Reader, template, template, c.public, c.private)
		must(t, err)
		a, err := ParseAuthority(block("CERTIFICATE", der), c.text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		k := newKeeper(t, &given{now: Authorities{Clients: a, Peers: a}}, nil)
		prepare(t, k, "a")
	}
}

// One authority for both would make every client a member.
func TestClientsAndPeersAreApart(t *testing.T) {
	files := func(name string) (cert, key string) {
		bundle, private := encode(t, newAuthority(t, name, time.Hour))
		return write(t, name+".crt", bundle), write(t, name+".key", private)
	}
	one, key := files("one")
	two, key2 := files("two")
	if _, err := (FileSource{ClientCAFile: one, ClientCAKeyFile: key, PeerCAFile: two, PeerCAKeyFile: key2}).Authorities(t.Context()); err != nil {
		t.Error(err)
	}
	_, err := (FileSource{ClientCAFile: one, ClientCAKeyFile: key, PeerCAFile: one, PeerCAKeyFile: key}).Authorities(t.Context())
	if err == nil || !strings.Contains(err.Error(), "any client could be a member") {
		t.Errorf("got %v", err)
	}
}

func TestLoadAuthorityRefuses(t *testing.T) {
	a, other := newAuthority(t, "one", time.Hour), newAuthority(t, "other", time.Hour)
	bundle, key := encode(t, a)
	_, foreign := encode(t, other)
	leafKey, err := newKey()
	must(t, err)
	l, err := peerProfile(peerName, "a."+zone, "a."+zone, "").issue(a.signers()[0], leafKey, time.Minute, time.Now())
	must(t, err)
	expired := newAuthority(t, "expired", -time.Minute)
	expiredBundle, expiredKey := encode(t, expired)
	for _, c := range []struct {
		name        string
		bundle, key []byte
		mode        os.FileMode
		want        string
	}{
		{"no CA", EncodeCertificates(l.cert), nil, 0o600, "no CA:TRUE"},
		{"expired", expiredBundle, expiredKey, 0o600, "expired at"},
		{"key of another", bundle, foreign, 0o600, "belongs to none"},
		{"others may read the key", bundle, key, 0o640, "chmod 600"},
		{"cut short", bundle[:len(bundle)-30], key, 0o600, "cut short"},
		{"second one cut short", append(bytes.Clone(bundle), bundle[:100]...), key, 0o600, "1 of 2 PEM blocks"},
		{"empty", nil, key, 0o600, "no certificate"},
		{"empty key", bundle, []byte{}, 0o600, "ca.key is empty"},
		{"key among certificates", append(bytes.Clone(bundle), key...), nil, 0o600, "only certificates"},
		{"certificate as key", bundle, bundle, 0o600, "only private keys"},
		{"encrypted", bundle, []byte("-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n"), 0o600, "pass phrase"},
		{"garbage", bundle, []byte("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"), 0o600, "neither PKCS #8"},
		{"huge", bytes.Repeat([]byte("#"), maxFile+1), nil, 0o600, "more than"},
	} {
		certFile, keyFile := write(t, "ca.crt", c.bundle), ""
		if c.key != nil {
			keyFile = write(t, "ca.key", c.key)
			must(t, os.Chmod(keyFile, c.mode))
		}
		_, err := FileSource{ClientCAFile: certFile, ClientCAKeyFile: keyFile, PeerCAFile: certFile, PeerCAKeyFile: keyFile}.Authorities(t.Context())
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
			continue
		}
		if !strings.Contains(err.Error(), "tls.client-ca-file") || !strings.Contains(err.Error(), filepath.Dir(certFile)) && !strings.Contains(err.Error(), keyFile) {
			t.Errorf("%s: %v names neither the key nor the file", c.name, err)
		}
	}
	_, err = LoadAuthority(filepath.Join(t.TempDir(), "none.crt"), "")
	if err == nil || !strings.Contains(err.Error(), "none.crt") {
		t.Errorf("no file: %v", err)
	}
}

// Whatever the files contain, the result is an authority that can be written and read again, or an error. The corpus
// has complete ones, with keys that are used nowhere.
func FuzzParseAuthority(f *testing.F) {
	f.Fuzz(func(t *testing.T, bundle, key []byte) {
		a, err := ParseAuthority(bundle, key)
		if err != nil {
			return
		}
		certs, keys := encode(t, a)
		b, err := ParseAuthority(certs, keys)
		if err != nil {
			t.Fatalf("what was read and written cannot be read: %v", err)
		}
		if len(a.Bundle) != len(b.Bundle) || (a.Key == nil) != (b.Key == nil) || len(a.More) != len(b.More) || a.Key != nil && !a.Primary.Equal(b.Primary) {
			t.Fatalf("read %+v, then %+v", a, b)
		}
		for i := range a.Bundle {
			if !a.Bundle[i].Equal(b.Bundle[i]) {
				t.Fatalf("certificate %d differs", i)
			}
		}
	})
}

// A machine may start with the time of another time zone, until NTP corrects it. What it signs meanwhile is valid by
// the clocks of the others, even if it also made the authority.
func TestClockOfAnotherTimeZone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		right := time.Now()
		time.Sleep(14 * time.Hour)
		a := newAuthority(t, "peers", 10*365*24*time.Hour)
		key, err := newKey()
		must(t, err)
		l, err := peerProfile(peerName, "a."+zone, "a."+zone, "").issue(a.signers()[0], key, 90*24*time.Hour, time.Now())
		must(t, err)
		if _, err := l.cert.Verify(x509.VerifyOptions{Roots: Pool(a.Primary), CurrentTime: right}); err != nil {
			t.Errorf("by a clock that is right: %v", err)
		}
		// The machine's own clock is corrected: it must be able to sign with its authority.
		if _, err := peerProfile(peerName, "a."+zone, "a."+zone, "").issue(a.signers()[0], key, time.Hour,
			right); err != nil {
			t.Errorf("after the clock was corrected: %v", err)
		}
	})
}

// The machine that made the authorities had a clock that was ahead by any time. When it is corrected, every machine can
// sign with them.
func TestClockFarAhead(t *testing.T) {
	for _, ahead := range []time.Duration{30 * 24 * time.Hour, 20 * 365 * 24 * time.Hour} {
		right := time.Now().Add(-ahead)
		a, err := NewAuthority("peers", longLived)
		must(t, err)
		key, err := newKey()
		must(t, err)
		p := peerProfile(peerName, "a."+zone, "a."+zone, "")
		if _, err := p.issue(a.signers()[0], key, 90*24*time.Hour, right); err != nil {
			t.Errorf("ahead by %s, then corrected: %v", ahead, err)
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
