package certificates

import (
	"os"
	"strings"
	"testing"
	"time"

	"holdfast/cmd/node"
	"holdfast/embedded/pki"
)

// What a node issues takes the place of the present certificate only if it is for this client and this key, and good.
func TestForeignCertificateIsNotTaken(t *testing.T) {
	cfg := withAuthorities(t)
	f := FilesOf(t.TempDir(), "kube")
	issue := func(name string) Issued {
		t.Helper()
		i, err := Issue(t.Context(), cfg, pki.Client, name, nil, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return i
	}
	own := issue("kube")
	for path, text := range map[string][]byte{f.Certificate: own.Certificate, f.Key: own.Key, f.Authorities: own.CA} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	has, err := f.Read()
	if err != nil {
		t.Fatal(err)
	}
	same := func(name string) Issued {
		t.Helper()
		i, err := Issue(t.Context(), cfg, pki.Client, name, has, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return i
	}
	other := withAuthorities(t)
	strange, err := Issue(t.Context(), other, pki.Client, "kube", has, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		told Issued
		says string
	}{
		"the next one":         {same("kube"), ""},
		"another name":         {same("root"), `it is of "root", not of kube`},
		"another key":          {issue("kube"), "private key does not match"},
		"another authority":    {Issued{Certificate: strange.Certificate, CA: own.CA}, "unknown authority"},
		"nothing":              {Issued{CA: own.CA}, "failed to find any PEM data"},
		"without its key only": {Issued{Certificate: own.CA, CA: own.CA}, "does not match"},
	} {
		err := f.fits(node.Fresh{Certificate: string(c.told.Certificate), Authorities: string(c.told.CA)})
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v, want %q", name, err, c.says)
		}
	}
}
