package backups

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	clientv3 "go.etcd.io/etcd/client/v3"

	"holdfast/cmd/control"
	"holdfast/cmd/node"
	"holdfast/snapshot"
	"holdfast/snapshot/etcdclient"
)

// Node is a node that saves its own member.
type Node struct{ *control.Client }

// Would returns the backup that Save would make.
func (n Node) Would(ctx context.Context) (would node.Saved, err error) {
	err = n.Get(ctx, "POST /snapshot", &would, control.Args{"dry": true})
	return would, err
}

// Save asks the node to save a backup, and reports its progress.
func (n Node) Save(ctx context.Context, progress func(snapshot.Progress)) (node.Saved, error) {
	body, err := n.Call(ctx, "POST /snapshot")
	if err != nil {
		return node.Saved{}, err
	}
	defer body.Close()
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e node.SaveEvent
		if err := json.NewDecoder(bytes.NewReader(lines.Bytes())).Decode(&e); err != nil {
			return node.Saved{}, fmt.Errorf("decode the answer of %s: %w", n.At, err)
		}
		switch {
		case e.Progress != nil:
			progress(*e.Progress)
		case e.Saved != nil:
			return *e.Saved, nil
		default:
			return node.Saved{}, errors.New(e.Error)
		}
	}
	return node.Saved{}, fmt.Errorf("the node ended while it saved: %w", errors.Join(lines.Err(), io.ErrUnexpectedEOF))
}

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

// Would returns the backup that Save would make, and an error if the store does not answer.
func (r *Remote) Would(ctx context.Context) (node.Saved, error) {
	_, _, err := r.backups.list(ctx)
	return r.saved(r.meta()), err
}

// Save saves a backup of the chosen member to the store.
func (r *Remote) Save(ctx context.Context, progress func(snapshot.Progress)) (node.Saved, error) {
	opt := r.backups.opt
	opt.Progress = progress
	tx, err := r.source.Fetch(ctx, r.client, opt)
	if err != nil {
		return node.Saved{}, fmt.Errorf("fetch a snapshot of %s: %w", r.source.Endpoint, err)
	}
	meta, err := snapshot.Save(ctx, r.backups.Store, tx, r.meta(), opt)
	return r.saved(meta), err
}

func (r *Remote) saved(m snapshot.Meta) node.Saved {
	return node.Saved{Meta: m, Store: r.backups.Config.Snapshot.Store}
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
