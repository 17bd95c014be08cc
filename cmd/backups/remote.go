package backups

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"holdfast/snapshot"
	"holdfast/snapshot/etcdclient"
)

// Remote is a member of any etcd, chosen to be saved.
type Remote struct {
	backups *Backups
	client  clientv3.Config
	source  etcdclient.Source
	version string
}

// Remote chooses a member of the etcd at the client's endpoints. The backup records version, which is this program's.
func (b *Backups) Remote(ctx context.Context, client clientv3.Config, version string) (*Remote, error) {
	if b.optErr != nil {
		return nil, b.optErr
	}
	source, err := etcdclient.Choose(ctx, client)
	return &Remote{b, client, source, version}, err
}

// Would returns the metadata of the backup that Save would make, and an error if the store does not answer.
func (r *Remote) Would(ctx context.Context) (snapshot.Meta, error) {
	_, _, err := r.backups.list(ctx)
	return r.meta(), err
}

// Save saves a backup of the chosen member to the store.
func (r *Remote) Save(ctx context.Context, progress func(snapshot.Progress)) (snapshot.Meta, error) {
	opt := r.backups.opt
	opt.Progress = progress
	tx, err := r.source.Fetch(ctx, r.client, opt)
	if err != nil {
		return snapshot.Meta{}, fmt.Errorf("fetch a snapshot of %s: %w", r.source.Endpoint, err)
	}
	return snapshot.Save(ctx, r.backups.Store, tx, r.meta(), opt)
}

// meta describes the backup. Its lineage is made from the cluster's ID, so that nobody takes it for the backup of a
// holdfast cluster with the same name.
func (r *Remote) meta() snapshot.Meta {
	s, cfg := r.source, r.backups.Config
	id := fmt.Sprintf("%x", s.Status.Header.ClusterId)
	return snapshot.Meta{
		Cluster: cfg.Cluster.Name, Lineage: "etcd-" + id, EtcdClusterID: id, Slot: s.Member, Node: cfg.Node.Name,
		Members: s.Voters, HoldfastVersion: r.version, EtcdVersion: s.Status.Version,
	}
}
