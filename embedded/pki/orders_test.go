package pki

import (
	"cmp"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// names are those of the cluster main.
var names = Names{Zone: "main.x", Members: []string{"peer.main.x"}}

type fixed Authorities

func (f fixed) Authorities(context.Context) (Authorities, error) { return Authorities(f), nil }

// An order counts if the peers' authority has signed it, with any kind of key, or a member's certificate. An order that
// a command gives also counts if an operator's certificate has signed it.
func TestWhoseOrdersCount(t *testing.T) {
	now, text := time.Now(), []byte("an order")
	peers, err := NewAuthority("peers", 24*time.Hour)
	must(t, err)
	next, err := NewAuthority("the next one", 24*time.Hour)
	must(t, err)
	clients, err := NewAuthority("clients", 24*time.Hour)
	must(t, err)
	both := Authority{Bundle: append(peers.Bundle, next.Bundle...), Primary: next.Primary, Key: next.Key, More: []crypto.Signer{peers.Key}}
	reader := SourceOrders(fixed{Peers: both}, names, "")
	by := func(a Authority, dns string, usage x509.ExtKeyUsage, life time.Duration) *Orders {
		key, err := newKey()
		must(t, err)
		l, err := profile{dns: strings.Fields(dns), usages: []x509.ExtKeyUsage{usage}}.issue(a.signers()[0], key, life, now)
		must(t, err)
		return &Orders{func() (papers, error) { return papers{key: key, chain: l.Certificate.Certificate}, nil }}
	}
	member := by(peers, "peer.main.x", x509.ExtKeyUsageClientAuth, time.Hour)
	for name, tc := range map[string]struct {
		by      *Orders
		at      time.Time
		want    string
		command string // the result for a command; "" for the same
	}{
		"an operator": {by: by(peers, OrderName("main.x"), x509.ExtKeyUsageClientAuth, time.Hour),
			want: "which signs proposals and their aborts, and nothing else", command: "-"},
		"an operator of the next authority": {by: by(next, OrderName("main.x"), x509.ExtKeyUsageClientAuth, time.Hour),
			want: "and nothing else", command: "-"},
		"an operator, after its certificate":    {by: by(peers, OrderName("main.x"), x509.ExtKeyUsageClientAuth, time.Hour), at: now.Add(2 * time.Hour), want: "expired"},
		"an operator, before its certificate":   {by: by(peers, OrderName("main.x"), x509.ExtKeyUsageClientAuth, time.Hour), at: now.Add(-time.Hour), want: "is not yet valid"},
		"an operator of another cluster":        {by: by(peers, OrderName("other.x"), x509.ExtKeyUsageClientAuth, time.Hour), want: "not a member's"},
		"an operator of the clients' authority": {by: by(clients, OrderName("main.x"), x509.ExtKeyUsageClientAuth, time.Hour), want: "not a member's"},
		"an operator's certificate, for else":   {by: by(peers, OrderName("main.x"), x509.ExtKeyUsageServerAuth, time.Hour), want: "not a member's"},
		"an operator that is a member, too":     {by: by(peers, OrderName("main.x")+" peer.main.x", x509.ExtKeyUsageClientAuth, time.Hour), want: "and nothing else", command: "-"},
		"an observer that is a member, too":     {by: by(peers, WatchName("main.x")+" peer.main.x", x509.ExtKeyUsageClientAuth, time.Hour), want: "not a member's"},
		"the authority":                         {by: SourceOrders(fixed{Peers: next}, names, "")},
		"the one that is on its way out":        {by: SourceOrders(fixed{Peers: peers}, names, "")},
		"a member":                              {by: member},
		"a member, after its certificate":       {by: member, at: now.Add(2 * time.Hour), want: "expired"},
		"the clients' authority":                {by: SourceOrders(fixed{Peers: clients}, names, ""), want: "not signed by the peers' authority"},
		"a client":                              {by: by(clients, "peer.main.x", x509.ExtKeyUsageClientAuth, time.Hour), want: "not a member's"},
		"an observer":                           {by: by(peers, WatchName("main.x"), x509.ExtKeyUsageClientAuth, time.Hour), want: "not a member's"},
		"what a node shows in the gossip":       {by: by(peers, MeshName("main.x"), x509.ExtKeyUsageClientAuth, time.Hour), want: "not a member's"},
		"a member of another cluster":           {by: by(peers, "peer.other.x", x509.ExtKeyUsageClientAuth, time.Hour), want: "not a member's"},
		"a certificate of members, for else":    {by: by(peers, "peer.main.x", x509.ExtKeyUsageServerAuth, time.Hour), want: "not a member's"},
	} {
		signature, err := tc.by.Sign(text, false)
		must(t, err)
		if tc.at.IsZero() {
			tc.at = now
		}
		for command, want := range map[bool]string{false: tc.want, true: strings.TrimPrefix(cmp.Or(tc.command, tc.want), "-")} {
			switch err := reader.Check(text, signature, tc.at, command); {
			case want == "" && err != nil, want != "" && (err == nil || !strings.Contains(err.Error(), want)):
				t.Errorf("%s, command %v: got %v, want %q", name, command, err, want)
			}
			if reader.Check([]byte("another order"), signature, tc.at, command) == nil {
				t.Errorf("%s: the signature is good for another order", name)
			}
		}
	}
	for _, bad := range []string{"", "null", "{", `{"value":"AAAA"}`, `{"chain":["AAAA"],"value":"AAAA"}`, `{"chain":[""],"value":""}`} {
		if reader.Check(text, []byte(bad), now, false) == nil {
			t.Errorf("%q counts", bad)
		}
	}
	stolen, err := member.Sign(text, false)
	must(t, err)
	var s orderSignature
	must(t, json.Unmarshal(stolen, &s))
	s.Value = nil
	forged, err := json.Marshal(s)
	must(t, err)
	if reader.Check(text, forged, now, false) == nil {
		t.Error("a member's certificate without its signature counts")
	}
}

// What rests on the authority that signs now lasts, whether its own signature or that of a member's certificate.
func TestWhatLasts(t *testing.T) {
	old, err := NewAuthority("old", time.Hour)
	must(t, err)
	next, err := NewAuthority("next", time.Hour)
	must(t, err)
	both := append(old.Bundle, next.Bundle...)
	member := func(a Authority) *Orders {
		key, err := newKey()
		must(t, err)
		l, err := profile{dns: []string{"peer.main.x"}, usages: bothUsages}.issue(a.signers()[0], key, time.Hour, time.Now())
		must(t, err)
		return &Orders{func() (papers, error) {
			return papers{authorities: both, key: key, chain: l.Certificate.Certificate, names: names}, nil
		}}
	}
	keyed := func(a Authority) *Orders {
		return SourceOrders(fixed{Peers: Authority{Bundle: both, Primary: a.Primary, Key: a.Key}}, names, "")
	}
	for by, reader := range map[string]*Orders{"with the key": keyed(next), "with a certificate": member(next)} {
		for name, tc := range map[string]struct {
			by   *Orders
			want bool
		}{"the old authority": {keyed(old), false}, "its member": {member(old), false}, "the next authority": {keyed(next), true}, "its member too": {member(next), true}} {
			signature, err := tc.by.Sign([]byte("x"), false)
			must(t, err)
			must(t, reader.Check([]byte("x"), signature, time.Now(), false))
			if got := reader.Lasts([]byte("x"), signature, time.Now(), false); got != tc.want {
				t.Errorf("%s, %s: lasts %v, want %v", by, name, got, tc.want)
			}
		}
	}
	nobody := SourceOrders(fixed{Peers: Authority{Bundle: both}}, names, "")
	if !nobody.Lasts(nil, nil, time.Now(), false) {
		t.Error("who cannot sign is asked to sign again")
	}
}

// The authorities of mode ca may have any kind of key.
func TestOrdersWithAnyKey(t *testing.T) {
	for name, make := range map[string]func() (crypto.Signer, error){
		"P-384":   func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P384(), rand.Reader) },
		"RSA":     func() (crypto.Signer, error) { return rsa.GenerateKey(rand.Reader, 2048) },
		"Ed25519": func() (crypto.Signer, error) { _, key, err := ed25519.GenerateKey(rand.Reader); return key, err },
	} {
		key, err := make()
		must(t, err)
		template := &x509.Certificate{Subject: pkix.Name{CommonName: "peers"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
		c, err := sign(template, template, key.Public(), key)
		must(t, err)
		o := SourceOrders(fixed{Peers: Authority{Bundle: []*x509.Certificate{c}, Primary: c, Key: key}}, names, "")
		signature, err := o.Sign([]byte("an order"), false)
		if err == nil {
			err = o.Check([]byte("an order"), signature, time.Now(), false)
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// In mode files a member's certificate signs, and only what is not possible fails.
func TestOrdersOfFiles(t *testing.T) {
	dir := t.TempDir()
	peers, err := NewAuthority("peers", time.Hour)
	must(t, err)
	key, err := newKey()
	must(t, err)
	l, err := profile{commonName: "n1", usages: bothUsages}.issue(peers.signers()[0], key, time.Hour, time.Now())
	must(t, err)
	text, err := l.encode()
	must(t, err)
	pair, authority := filepath.Join(dir, "pair.pem"), filepath.Join(dir, "ca.crt")
	must(t, os.WriteFile(pair, text, 0o600))
	files := Names{Zone: "main.x", CommonNames: []string{"n1"}}
	o := FileOrders(pair, pair, authority, files)
	if err := o.Check([]byte("x"), []byte("{}"), time.Now(), false); err == nil || !strings.Contains(err.Error(), authority) {
		t.Errorf("without the authority: %v", err)
	}
	must(t, os.WriteFile(authority, EncodeCertificates(peers.Bundle...), 0o600))
	signature, err := o.Sign([]byte("x"), false)
	if err == nil {
		err = FileOrders("", "", authority, files).Check([]byte("x"), signature, time.Now(), false)
	}
	if err != nil {
		t.Error(err)
	}
	if _, err := FileOrders("", "", authority, files).Sign([]byte("x"), false); err == nil || !strings.Contains(err.Error(), "run the command on a node") {
		t.Errorf("without a certificate: %v", err)
	}
	if FileOrders(pair, pair, "", files) != nil {
		t.Error("without an authority nothing can be checked, and nothing is")
	}
}

// An operator's paper signs only what commands give, as long as that counts.
func TestOrdersOfAnOperator(t *testing.T) { synctest.Test(t, ordersOfAnOperator) }

func ordersOfAnOperator(t *testing.T) {
	all := newAuthorities(t, "peers", 24*time.Hour)
	path, node := filepath.Join(t.TempDir(), "operator.pem"), SourceOrders(fixed(all), names, "")
	write := func(h Holder, zone string) *Orders {
		t.Helper()
		text, err := IssuePaper(all, h, zone, "alice", time.Hour, time.Now())
		must(t, err)
		must(t, os.WriteFile(path, text, 0o600))
		return OperatorOrders(path, names)
	}
	o := write(Operator, "main.x")
	signature, err := o.Sign([]byte("x"), true)
	if err == nil {
		err = errors.Join(o.Check([]byte("x"), signature, time.Now(), true), node.Check([]byte("x"), signature, time.Now(), true))
	}
	if err != nil {
		t.Error(err)
	}
	if node.Check([]byte("x"), signature, time.Now(), false) == nil {
		t.Error("it counts as what no command gives")
	}
	if signature, err := node.Sign([]byte("x"), false); err != nil || o.Check([]byte("x"), signature, time.Now(), false) != nil {
		t.Errorf("what a node signs does not count: %v", err)
	}
	for _, tc := range []struct {
		holder  Holder
		zone    string
		age     time.Duration
		command bool
		says    string
	}{
		{Operator, "main.x", 0, false, "signs proposals and their aborts, and nothing else"},
		{Operator, "main.x", 2 * time.Hour, true, "expired"},
		{Operator, "other.x", 0, true, "not a member's"},
		{Observer, "main.x", 0, true, "not a member's"},
	} {
		o := write(tc.holder, tc.zone)
		time.Sleep(tc.age)
		signature, err := o.Sign([]byte("x"), tc.command)
		if err == nil || !strings.Contains(err.Error(), tc.says) || !strings.Contains(err.Error(), "tls.operator-file") || signature != nil {
			t.Errorf("%+v: got %v", tc, err)
		}
	}
	if _, err := OperatorOrders(path+"-", names).Sign(nil, true); err == nil || !strings.Contains(err.Error(), "tls.operator-file") {
		t.Errorf("without a file: %v", err)
	}
}

// If the operator keeps the key of the peers' authority, the node signs with the member's certificate in its directory,
// even before its member has started.
func TestOrdersOfANode(t *testing.T) {
	peers, err := NewAuthority("peers", time.Hour)
	must(t, err)
	clients, err := NewAuthority("clients", time.Hour)
	must(t, err)
	closed := Authority{Bundle: peers.Bundle}
	for name, given := range map[string]Authority{"with the key": peers, "without": closed} {
		cfg := Config{Mode: ModeCA, Dir: t.TempDir(), LeafLife: time.Hour, CALife: 2 * time.Hour}
		k, err := New(cfg, Identity{Zone: "main.x", PeerName: "peer.main.x", Orders: names}, fixed{Clients: clients, Peers: given}, zap.NewNop(), prometheus.NewRegistry())
		must(t, err)
		o := k.Orders()
		if _, err := o.Sign([]byte("x"), false); err == nil || !strings.Contains(err.Error(), "not known here yet") {
			t.Errorf("%s, before anything was read: %v", name, err)
		}
		_, err = k.look(t.Context(), false)
		if given.Key == nil {
			if _, err := o.Sign([]byte("x"), false); err == nil || !strings.Contains(err.Error(), "run the command on a node") {
				t.Errorf("%s, and without a certificate: %v", name, err)
			}
			key, err := newKey()
			must(t, err)
			l, err := profile{dns: []string{"peer.main.x"}, usages: bothUsages}.issue(peers.signers()[0], key, time.Hour, time.Now())
			must(t, err)
			text, err := l.encode()
			must(t, err)
			must(t, os.WriteFile(cfg.Files().Peer, text, 0o600))
		} else {
			must(t, err)
		}
		signature, err := o.Sign([]byte("x"), false)
		must(t, err)
		if err := SourceOrders(fixed{Peers: closed}, names, "").Check([]byte("x"), signature, time.Now(), false); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if signature, err = SourceOrders(fixed{Peers: given}, names, cfg.Files().Peer).Sign([]byte("x"), false); err != nil {
			t.Errorf("%s, by a command: %v", name, err)
		} else if err := o.Check([]byte("x"), signature, time.Now(), false); err != nil {
			t.Errorf("%s, by a command: %v", name, err)
		}
	}
}
