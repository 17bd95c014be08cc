package pki

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// The table shows who has presented what, and when last. It stays small, and never forgets a certificate in use.
func TestClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, end := NewClients(), time.Now().Add(time.Hour)
		authority := func(name string) *x509.Certificate { return &x509.Certificate{Raw: []byte(name)} }
		cert := func(cn, raw string, until time.Time) *x509.Certificate {
			return &x509.Certificate{Raw: []byte(raw), Subject: pkix.Name{CommonName: cn}, NotAfter: until}
		}
		see := func(cn, raw, by string, until time.Time, streams int) {
			c.See([]*x509.Certificate{cert(cn, raw, until), authority(by)}, streams)
		}
		names := func(authorities ...string) string {
			text := ""
			for _, p := range c.Of(time.Now(), authorities...) {
				text += fmt.Sprintf("%s %s; ", p.Name, time.Since(p.Last))
			}
			return text
		}
		old, fresh := Fingerprint(authority("old")), Fingerprint(authority("fresh"))
		see("kube", "1", "old", end, 0)
		see("watcher", "2", "old", end, 1)
		time.Sleep(time.Minute)
		see("kube", "3", "fresh", end, 0)
		see("brief", "4", "old", time.Now().Add(time.Second), 0)
		gateway := &x509.Certificate{Raw: []byte("5"), ExtKeyUsage: bothUsages, NotAfter: end}
		c.See([]*x509.Certificate{gateway, authority("old")}, 0)
		time.Sleep(time.Second)
		if got, want := names(old), "watcher 0s; kube 1m1s; "; got != want {
			t.Errorf("of the old authority: got %q, want %q", got, want)
		}
		if got, want := names(fresh), "kube 1s; "; got != want {
			t.Errorf("of the new one: got %q, want %q", got, want)
		}
		see("kube", "6", "old", end, 0) // renewed by the old authority
		see("watcher", "2", "old", end, -1)
		time.Sleep(time.Second)
		got := c.Of(time.Now(), old)
		if len(got) != 2 || time.Since(got[0].Last) != time.Second || time.Since(got[1].Last) != time.Second {
			t.Errorf("got %+v", got)
		}
		see("open", "7", "old", end, 1)
		for i := range 2 * maxShown {
			time.Sleep(time.Millisecond)
			see("many", fmt.Sprint("many", i), "fresh", end, 0)
		}
		if n := len(c.seen); n != maxShown {
			t.Errorf("the table has %d entries", n)
		}
		if got := names(old); got != "open 0s; " {
			t.Errorf("what is in use was forgotten: got %q", got)
		}
	})
}
