package pki

import (
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
)

// handshake returns nil if both sides accept each other. A client of TLS 1.3 learns of its refusal only when it reads.
func handshake(server, client *tls.Config) error {
	s, c := net.Pipe()
	defer c.Close()
	served := make(chan error, 1)
	go func() {
		conn := tls.Server(s, server)
		err := conn.Handshake()
		conn.Close()
		served <- err
	}()
	conn := tls.Client(c, client)
	err := conn.Handshake()
	if err == nil {
		_, err = io.Copy(io.Discard, conn)
	}
	c.Close()
	return errors.Join(err, <-served)
}

// member is the peers' side of etcd as package embedded sets it up: it reads its trusted authorities once.
type member struct {
	keeper         *Keeper
	server, client *tls.Config
	loaded         []string
}

func start(t testing.TB, k *Keeper) *member {
	t.Helper()
	f := k.cfg.Files()
	info := transport.TLSInfo{
		CertFile: f.Peer, KeyFile: f.Peer, TrustedCAFile: f.PeersCA, ClientCertAuth: true,
		SkipClientSANVerify: true, AllowedHostnames: []string{peerName},
	}
	m := &member{keeper: k, loaded: []string{}}
	var err, err2 error
	m.server, err = info.ServerConfig()
	m.client, err2 = info.ClientConfig()
	must(t, errors.Join(err, err2))
	for _, c := range k.now().trusted {
		m.loaded = append(m.loaded, Fingerprint(c))
	}
	return m
}

// dial is a peer's connection to the member of a slot.
func (m *member) dial(to *member, slot string) error {
	client := m.client.Clone()
	client.ServerName = slot + "." + zone
	return handshake(to.server, client)
}

type cluster struct {
	slots   []string
	members []*member
}

// newCluster starts members of the slots a, b, c with running keepers.
func newCluster(t testing.TB, sources []Source, change func(*Config)) *cluster {
	c := &cluster{slots: []string{"a", "b", "c"}}
	for i, slot := range c.slots {
		cfg := Default()
		cfg.Mode, cfg.Dir = ModeCA, filepath.Join(t.TempDir(), "tls")
		change(&cfg)
		k := openKeeper(t, cfg, sources[i])
		prepare(t, k, slot)
		c.members = append(c.members, start(t, k))
		go k.Run(t.Context())
	}
	return c
}

// talk tells every node what the others trust and present, and makes every member dial every other.
func (c *cluster) talk() error {
	var all []Stance
	for _, m := range c.members {
		all = append(all, Stance{Trusts: m.keeper.trusts(m.loaded), Issuer: m.keeper.Issuer()})
	}
	for i, m := range c.members {
		m.keeper.See(Stance{Trusts: m.loaded, Issuer: all[i].Issuer}, slices.Delete(slices.Clone(all), i, i+1), true)
	}
	for i, m := range c.members {
		for j, to := range c.members {
			if err := m.dial(to, c.slots[j]); err != nil {
				return fmt.Errorf("at %s, %s dials %s: %w", time.Now().Format(time.RFC3339), c.slots[i], c.slots[j], err)
			}
		}
	}
	return nil
}

// For six lives of the leaves, without any intervention, every handshake of etcd's succeeds. No leaf is older than two
// thirds of its life and one look, and none changes its key while the member runs.
func TestLives(t *testing.T) {
	if testing.Short() {
		t.Skip("several seconds")
	}
	synctest.Test(t, func(t *testing.T) {
		source := &given{now: newAuthorities(t, "one", 24*365*time.Hour)}
		c := newCluster(t, []Source{source, source, source}, func(cfg *Config) { cfg.LeafLife = time.Hour })
		first := load(t, c.members[0].keeper.cfg.Files().Peer)
		seen := map[string]bool{}
		for range 6 * 20 {
			time.Sleep(3 * time.Minute)
			synctest.Wait()
			must(t, c.talk())
			for _, m := range c.members {
				for _, path := range []string{m.keeper.cfg.Files().Peer, m.keeper.cfg.Files().Server} {
					leaf := load(t, path).Leaf
					seen[Fingerprint(leaf)] = true
					if age := time.Since(leaf.NotBefore); age > 45*time.Minute {
						t.Fatalf("%s has lived for %s of an hour", path, age)
					}
				}
				if p := m.keeper.Problems(); len(p) > 0 {
					t.Fatal(p)
				}
			}
		}
		if got := len(seen); got < 6*8 || got > 6*11 {
			t.Errorf("%d certificates in six lives of six", got)
		}
		last := load(t, c.members[0].keeper.cfg.Files().Peer)
		if !last.PrivateKey.(*ecdsa.PrivateKey).Equal(first.PrivateKey) {
			t.Error("the key of a member that runs was changed")
		}
	})
}

// The peers' authority is replaced, abruptly and on one node after the other, while members keep dialling each other.
func TestChangeUnderTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, young := newAuthorities(t, "old", 24*365*time.Hour), newAuthorities(t, "young", 24*365*time.Hour)
		sources := []*given{{now: old}, {now: old}, {now: old}}
		c := newCluster(t, []Source{sources[0], sources[1], sources[2]}, func(cfg *Config) { cfg.LeafLife = 12 * time.Hour })
		pass := func() {
			t.Helper()
			for range 4 {
				time.Sleep(time.Minute)
				synctest.Wait()
				must(t, c.talk())
			}
		}
		reload := func() {
			t.Helper()
			for i, m := range c.members {
				c.members[i] = start(t, m.keeper)
				pass()
			}
		}
		pass()
		for _, g := range sources {
			g.set(young, nil)
			pass()
		}
		for i, m := range c.members {
			if got, want := m.keeper.Issuer(), Fingerprint(old.Peers.Primary); got != want {
				t.Errorf("slot %s: issued by %s before the others trust it", c.slots[i], got)
			}
		}
		reload()
		for i, m := range c.members {
			if got, want := m.keeper.Issuer(), Fingerprint(young.Peers.Primary); got != want {
				t.Errorf("slot %s: issuer is %s, want %s", c.slots[i], got, want)
			}
			if got := m.keeper.now().trusted; len(got) != 1 || !got[0].Equal(young.Peers.Primary) {
				t.Errorf("slot %s: the old authority is still trusted", c.slots[i])
			}
		}
		reload()
		stranger := newKeeper(t, &given{now: old}, nil)
		prepare(t, stranger, "d")
		if err := start(t, stranger).dial(c.members[0], "a"); err == nil {
			t.Error("a certificate of the old authority is accepted in the end")
		}
	})
}

// A stranger is not let in as a peer, and no peer connects to one.
func TestStrangers(t *testing.T) {
	ours, others := newAuthorities(t, "ours", time.Hour), newAuthorities(t, "others", time.Hour)
	keeper := func(a Authorities, slot string) *Keeper {
		k := newKeeper(t, &given{now: a}, nil)
		prepare(t, k, slot)
		return k
	}
	a := start(t, keeper(ours, "a"))
	must(t, a.dial(start(t, keeper(ours, "b")), "b"))
	foreign := start(t, keeper(others, "b"))
	if a.dial(foreign, "b") == nil || foreign.dial(a, "a") == nil {
		t.Error("a peer of another authority is accepted")
	}
	// This one is of the same authority, but has no peer's name.
	k := keeper(ours, "b")
	k.id.PeerName = "peer.other.holdfast.internal"
	prepare(t, k, "b")
	named := start(t, k)
	named.server.VerifyPeerCertificate, named.client.VerifyPeerCertificate = nil, nil
	if a.dial(named, "b") == nil || named.dial(a, "a") == nil {
		t.Error("a peer of another cluster is accepted")
	}
	// The clients' authority does not count for peers.
	k = keeper(Authorities{Clients: ours.Clients, Peers: ours.Clients}, "b")
	if start(t, k).dial(a, "a") == nil {
		t.Error("a certificate of the clients' authority makes a peer")
	}
}

// A member that etcd-manager runs checks more than the names in the certificate. As started there, etcd compares the
// addresses in it with that of the connection. Without addresses, it looks up all the names. It may know none of them,
// because etcd-manager removes the names of members that it no longer runs from /etc/hosts.
func TestMembersOfEtcdManagerAcceptOurs(t *testing.T) {
	previous := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("no nameserver")
	}}
	t.Cleanup(func() { net.DefaultResolver = previous })
	a := newAuthority(t, "etcd-peers-ca", time.Hour)
	bundle, _ := encode(t, a)
	ca := write(t, "ca.crt", bundle)
	issue := func(p profile) string {
		key, err := newKey()
		must(t, err)
		l, err := p.issue(a.signers()[0], key, time.Minute, time.Now())
		must(t, err)
		text, err := l.encode()
		must(t, err)
		return write(t, "leaf.pem", text)
	}
	const host = "etcd-%s.internal.k8s.example.com"
	theirs := issue(profile{commonName: "etcd-b", dns: []string{"etcd-b", fmt.Sprintf(host, "b")}, usages: bothUsages,
		ips: []net.IP{net.ParseIP("127.0.0.1").To16(), net.ParseIP("10.0.0.2").To16()}})
	for address, want := range map[string]bool{"127.0.0.1": true, "10.0.0.1": false, "": false} {
		ours := issue(peerProfile(peerName, "a."+zone, fmt.Sprintf(host, "a"), address))
		refused := make(chan error, 1)
		served, err := transport.NewListener("127.0.0.1:0", "https", &transport.TLSInfo{CertFile: theirs, KeyFile: theirs, TrustedCAFile: ca,
			ClientCertAuth: true, HandshakeFailure: func(_ *tls.Conn, err error) { refused <- err }})
		must(t, err)
		accepted := make(chan struct{}, 1)
		go func() {
			if conn, err := served.Accept(); err == nil {
				conn.Close()
				accepted <- struct{}{}
			}
		}()
		client, err := transport.TLSInfo{CertFile: ours, KeyFile: ours, TrustedCAFile: ca, SkipClientSANVerify: true,
			AllowedHostnames: []string{peerName, fmt.Sprintf(host, "a"), fmt.Sprintf(host, "b")}}.ClientConfig()
		must(t, err)
		client.ServerName = fmt.Sprintf(host, "b")
		conn, err := tls.Dial("tcp", served.Addr().String(), client)
		if err != nil {
			t.Fatalf("we refuse them: %v", err)
		}
		select {
		case <-accepted:
			if !want {
				t.Errorf("address %q: accepted", address)
			}
		case err := <-refused:
			if want {
				t.Errorf("address %q: %v", address, err)
			}
		}
		conn.Close()
		served.Close()
	}
}
