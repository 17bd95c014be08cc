package embedded

import (
	"crypto/tls"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"

	"holdfast/durable"
	"holdfast/embedded/pki"
)

// trust is the set of authorities that one life of the member trusts. etcd reads certificates and keys at each
// handshake, but the files of the trusted authorities only when it starts (client/pkg/transport, TLSInfo.ServerConfig).
type trust struct {
	client, peer   transport.TLSInfo
	clients, peers []string // fingerprints in the files before the start, sorted

	mu     sync.Mutex // held while the files are read
	looked time.Time
	last   atomic.Bool
}

// lookAtTrust is the shortest time between two reads of the files.
const lookAtTrust = time.Second

// newTrust reads the authorities before etcd reads them. A change in between makes the member stale although it need
// not be, and never the other way round. If a file cannot be read, etcd does not start and says why.
func newTrust(ec *embed.Config) *trust {
	t := &trust{client: ec.ClientTLSInfo, peer: ec.PeerTLSInfo, looked: time.Now()}
	t.clients, _ = authorities(t.client.TrustedCAFile)
	t.peers, _ = authorities(t.peer.TrustedCAFile)
	return t
}

// stale reports whether the files have other authorities than at the start of this life. The files are read at most
// once in lookAtTrust, and one at a time, because their disk may hang: then it returns the last result after a moment.
func (t *trust) stale() bool {
	switch {
	case !t.mu.TryLock():
	case time.Since(t.looked) < lookAtTrust:
		t.mu.Unlock()
	default:
		durable.Soon(glimpseWait, func() (none struct{}) {
			defer t.mu.Unlock()
			t.last.Store(t.changed())
			t.looked = time.Now()
			return none
		})
	}
	return t.last.Load()
}

// changed compares the files' certificates as sets. Files with which etcd could not start again do not count as a
// change, because a member that serves must not be stopped for them.
func (t *trust) changed() bool {
	clients, err := authorities(t.client.TrustedCAFile)
	if err != nil {
		return false
	}
	peers, err := authorities(t.peer.TrustedCAFile)
	if err != nil {
		return false
	}
	return !(slices.Equal(clients, t.clients) && slices.Equal(peers, t.peers)) && t.startable()
}

// startable reports whether etcd could read its certificates and keys.
func (t *trust) startable() bool {
	for _, info := range []transport.TLSInfo{t.client, t.peer} {
		if info.CertFile == "" {
			continue
		}
		if _, err := tls.LoadX509KeyPair(info.CertFile, info.KeyFile); err != nil {
			return false
		}
	}
	return true
}

// authorities returns the fingerprints of a file's certificates, sorted and without duplicates; none if file is "". It
// returns an error if etcd would not start with the file, if there is no certificate in it, or if it is not completely
// written yet.
func authorities(file string) (all []string, err error) {
	if file == "" {
		return nil, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	certificates, err := pki.ParseCertificates(data)
	all = pki.Fingerprints(certificates)
	slices.Sort(all)
	return slices.Compact(all), err
}
