package embedded

import (
	"context"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.uber.org/zap"

	"holdfast/embedded/plan"
)

// Trial is what a restored member answered.
type Trial struct {
	Revision        int64  `json:"revision"`
	CompactRevision int64  `json:"compactRevision"` // 0 or less: never compacted
	HashKV          uint32 `json:"hashKV"`          // at the requested revision
	// Keys counts the entries of bucket "key" before the start, which continues an interrupted compaction.
	Keys    int64    `json:"keys"`
	Members int      `json:"members"`
	Leases  int      `json:"leases"`
	Alarms  []string `json:"alarms,omitempty"` // with CORRUPT it serves nothing, see Rebuild
}

// rehearsalSegment is the size of a log segment in a rehearsal, in bytes. etcd reserves two, of 64 MB each
// (server/storage/wal/wal.go), and a rehearsal writes next to nothing.
const rehearsalSegment = 1 << 20

// Rehearse turns dir, which holds only a database, into a member's data directory like Rebuild, without raising the
// revision, and then tries it like Try. It changes the size of log segments for the whole process, so it must run in a
// process of its own, as Try must.
func Rehearse(ctx context.Context, dir string, spec plan.Spec, revision int64, lg *zap.Logger) (Trial, error) {
	wal.SegmentSizeBytes = rehearsalSegment
	if err := (Disk{}).Rebuild(ctx, dir, spec, 0); err != nil {
		return Trial{}, err
	}
	return Try(ctx, dir, spec, revision, lg)
}

// Try starts a lone member on the data directory that Rebuild made for spec.Slot alone, waits until it is ready, gets
// its HashKV at revision, and stops it. The member listens nowhere, so nobody can reach it. Try must run in a process
// of its own, because etcd's metrics are global and etcd may end the process. etcd logs to lg, including the last
// message before it ends the process.
func Try(ctx context.Context, dir string, spec plan.Spec, revision int64, lg *zap.Logger) (t Trial, err error) {
	defer during(&err, "try data directory %s", dir)
	spec.DataDir = dir
	found, err := Disk{}.Inspect(spec.DataDir)
	if err != nil {
		return t, err
	}
	if !found.WAL {
		return t, errors.New("it has no WAL: rebuild it first")
	}
	if err := checkBackend(spec.DataDir); err != nil {
		return t, err
	}
	if t.Keys, err = countEntries(ctx, DatabasePath(spec.DataDir)); err != nil {
		return t, err
	}
	e, err := embed.StartEtcd(trialConfig(spec, lg))
	if err != nil {
		return t, fmt.Errorf("start etcd: %w", err)
	}
	defer end(e)
	// Read these at once, because an expiring lease changes them.
	t.Revision, t.Leases = e.Server.KV().Rev(), leaseCount(e)
	select {
	case <-e.Server.ReadyNotify():
	case <-e.Server.StoppingNotify():
		return t, errors.New("etcd ended by itself")
	case <-ctx.Done():
		return t, fmt.Errorf("wait until it is ready: %w", context.Cause(ctx))
	}
	for _, m := range e.Server.Alarms() {
		t.Alarms = append(t.Alarms, m.Alarm.String())
	}
	t.Members = len(e.Server.Cluster().Members())
	hash, _, err := e.Server.KV().HashStorage().HashByRev(revision)
	if err != nil {
		return t, fmt.Errorf("hash revision %d of %d: %w", revision, t.Revision, err)
	}
	t.CompactRevision, t.HashKV = hash.CompactRevision, hash.Hash
	return t, nil
}

// trialConfig configures a member without a listener, which elects itself at once.
func trialConfig(spec plan.Spec, lg *zap.Logger) *embed.Config {
	c := embed.NewConfig()
	c.Name, c.Dir = spec.Slot, spec.DataDir
	c.InitialCluster, c.InitialClusterToken = initialCluster(spec.Peers), spec.Token
	c.ListenPeerUrls, c.ListenClientUrls, c.AdvertiseClientUrls = nil, nil, nil
	c.TickMs, c.ElectionMs = 10, 100
	c.QuotaBackendBytes = trialQuota
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(etcdLogger(lg, "error", spec, lastWord{killed: newLatch()}, newLatch()))
	return c
}

// trialQuota keeps a database larger than etcd's default quota of 2 GiB from raising a new alarm.
const trialQuota = 1 << 40

// leaseCount counts leases without the permissions that the client call would need.
func leaseCount(e *embed.Etcd) int {
	tx := e.Server.Backend().ReadTx()
	tx.RLock()
	defer tx.RUnlock()
	n := 0
	_ = tx.UnsafeForEach(schema.Lease, func(_, _ []byte) error { n++; return nil }) // only the function fails
	return n
}

func countEntries(ctx context.Context, path string) (n int64, err error) {
	err = viewDatabase(path, func(tx *bolt.Tx) error {
		bucket := tx.Bucket(schema.Key.Name())
		if bucket == nil {
			return errors.New("it has no bucket key: not an etcd database")
		}
		return bucket.ForEach(func(_, _ []byte) error {
			if n++; n%1024 == 0 {
				return context.Cause(ctx)
			}
			return nil
		})
	})
	return n, err
}

// Plain is a member as another program than holdfast would start it, on a data directory that has a log.
type Plain struct {
	Name       string `json:"name"`
	Dir        string `json:"dir"` // data directory
	Client     string `json:"client"`
	ListenPeer string `json:"listen_peer"`
	Peer       string `json:"peer"` // the URL that the members know
	Quota      int64  `json:"quota,omitempty"`
	// Certificate, Key and CA are files for the peers; "" for http.
	Certificate string `json:"certificate,omitempty"`
	Key         string `json:"key,omitempty"`
	CA          string `json:"ca,omitempty"`
}

// RunPlain runs the member until ctx ends, as etcd itself does, without anything of holdfast's. It must run in a
// process of its own, because etcd may end the process, and because it changes the size of log segments for the whole
// process.
func RunPlain(ctx context.Context, p Plain, lg *zap.Logger) error {
	wal.SegmentSizeBytes = rehearsalSegment
	c := embed.NewConfig()
	c.Name, c.Dir = p.Name, p.Dir
	// The log determines the members.
	c.InitialCluster, c.ClusterState = p.Name+"="+p.Peer, embed.ClusterStateFlagExisting
	c.QuotaBackendBytes = p.Quota
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(lg)
	var errs [4]error
	var client, listen, peer types.URLs
	client, errs[0] = types.NewURLs([]string{p.Client})
	listen, errs[1] = types.NewURLs([]string{p.ListenPeer})
	peer, errs[2] = types.NewURLs([]string{p.Peer})
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	c.ListenClientUrls, c.AdvertiseClientUrls, c.ListenPeerUrls, c.AdvertisePeerUrls = client, client, listen, peer
	if p.Certificate != "" {
		c.PeerTLSInfo = transport.TLSInfo{CertFile: p.Certificate, KeyFile: p.Key, TrustedCAFile: p.CA, ClientCertAuth: true}
	}
	e, err := embed.StartEtcd(c)
	if err != nil {
		return fmt.Errorf("start etcd on %s: %w", p.Dir, err)
	}
	select {
	case <-ctx.Done():
		e.Close() // hands over the leadership, as etcd does
		return nil
	case err := <-e.Err():
		return err
	}
}
