package cmd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"holdfast/cmd/config"
	"holdfast/snapshot"
)

// remoteTime is how long a server may take to answer, and be silent.
const remoteTime = 10 * time.Second

// choose opens the store of the configuration, and chooses a member of the etcd at the endpoints.
func (r *remoteFlags) choose(ctx context.Context, l *config.Loaded) (b *backupStore, cfg clientv3.Config, s source, err error) {
	if l.Origin["cluster.name"] == config.OriginDefault {
		return b, cfg, s, errors.New("say by what name the store is to know this cluster: --cluster.name NAME")
	}
	if b, err = openBackups(ctx, l.Config, ""); err == nil {
		err = b.optErr
	}
	if err != nil {
		return b, cfg, s, err
	}
	if cfg, err = r.config(); err != nil {
		return b, cfg, s, err
	}
	s, err = chooseSource(ctx, cfg)
	return b, cfg, s, err
}

// wouldSave returns whose backup save would save, and an error if it could not.
func (r *remoteFlags) wouldSave(ctx context.Context, l *config.Loaded) (snapshot.Meta, error) {
	b, _, source, err := r.choose(ctx, l)
	if err != nil {
		return snapshot.Meta{}, err
	}
	_, _, err = b.list(ctx)
	return source.meta(l.Config), err
}

// save saves a backup of the etcd at the endpoints to the store of the configuration.
func (r *remoteFlags) save(ctx context.Context, l *config.Loaded, progress func(snapshot.Progress)) (snapshot.Meta, error) {
	b, cfg, source, err := r.choose(ctx, l)
	if err != nil {
		return snapshot.Meta{}, err
	}
	tx, err := source.fetch(ctx, cfg, b.opt.Scratch, progress)
	if err != nil {
		return snapshot.Meta{}, fmt.Errorf("fetch a snapshot of %s: %w", source.endpoint, err)
	}
	opt := b.opt
	opt.Progress = progress
	return snapshot.Save(ctx, b.main, tx, source.meta(l.Config), opt)
}

// source is the member that a backup is read from.
type source struct {
	endpoint string
	member   string // its name; its ID if it has none or may not be asked
	voters   int    // of its cluster; 0 if it may not be asked
	status   *clientv3.StatusResponse
}

// meta says whose backup it is. The lineage is made of the cluster's ID, so that it can never be taken for the backup
// of a cluster of ours that has the same name.
func (s source) meta(cfg config.Config) snapshot.Meta {
	id := fmt.Sprintf("%x", s.status.Header.ClusterId)
	return snapshot.Meta{
		Cluster: cfg.Cluster.Name, Lineage: "etcd-" + id, EtcdClusterID: id, Slot: s.member, Node: cfg.Node.Name, Members: s.voters,
		HoldfastVersion: Version(), EtcdVersion: s.status.Version,
	}
}

// chooseSource asks all endpoints and takes the first that follows, for the leader has enough to do; else the leader.
func chooseSource(ctx context.Context, cfg clientv3.Config) (source, error) {
	client, err := clientv3.New(cfg)
	if err != nil {
		return source{}, fmt.Errorf("reach %s: %w", strings.Join(cfg.Endpoints, ", "), err)
	}
	defer client.Close()
	var all []source
	var errs []error
	for _, e := range cfg.Endpoints {
		s, err := askEndpoint(ctx, client, e)
		if err != nil {
			if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil { // which tells nobody why
				err = whySilent(ctx, e, cfg.TLS)
			}
			errs = append(errs, fmt.Errorf("ask %s: %w", e, err))
			continue
		}
		if len(all) > 0 && all[0].status.Header.ClusterId != s.status.Header.ClusterId {
			return source{}, fmt.Errorf("--endpoints: %s and %s are of two clusters, %x and %x: name those of one",
				all[0].endpoint, e, all[0].status.Header.ClusterId, s.status.Header.ClusterId)
		}
		all = append(all, s)
	}
	best := -1
	for i, s := range all {
		follows := s.status.Leader != 0 && s.status.Leader != s.status.Header.MemberId
		if s.status.IsLearner || s.status.Leader == 0 {
			errs = append(errs, fmt.Errorf("%s is a learner or sees no leader: it may be behind", s.endpoint))
		} else if best < 0 || follows && all[best].status.Leader == all[best].status.Header.MemberId {
			best = i
		}
	}
	if best < 0 {
		return source{}, fmt.Errorf("none of the endpoints can be saved: %w", errors.Join(errs...))
	}
	return all[best], nil
}

// whySilent finds out what is wrong with an endpoint that etcd's client got no answer from.
func whySilent(ctx context.Context, endpoint string, config *tls.Config) error {
	u, err := url.Parse(endpoint)
	if err != nil {
		return err
	}
	host := u.Host
	if u.Port() == "" {
		host = net.JoinHostPort(u.Hostname(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	}
	dialer := net.Dialer{Timeout: remoteTime}
	var conn net.Conn
	if u.Scheme == "https" {
		conn, err = (&tls.Dialer{NetDialer: &dialer, Config: config}).DialContext(ctx, "tcp", host)
	} else {
		conn, err = dialer.DialContext(ctx, "tcp", host)
	}
	if err != nil {
		return err
	}
	conn.Close()
	return fmt.Errorf("something listens there, but does not answer as etcd does within %s: is it etcd's client port, and is %s right?", remoteTime, u.Scheme)
}

func askEndpoint(ctx context.Context, client *clientv3.Client, endpoint string) (source, error) {
	ctx, cancel := context.WithTimeout(ctx, remoteTime)
	defer cancel()
	status, err := client.Status(ctx, endpoint)
	if err != nil {
		return source{}, err
	}
	s := source{endpoint: endpoint, member: fmt.Sprintf("%x", status.Header.MemberId), status: status}
	list, err := client.MemberList(ctx)
	if err != nil { // it only adds what people like to read
		return s, nil
	}
	for _, m := range list.Members {
		if !m.IsLearner {
			s.voters++
		}
		if m.ID == status.Header.MemberId && m.Name != "" {
			s.member = m.Name
		}
	}
	return s, nil
}

// fetch copies a snapshot of the member into a file without a name and opens it. The caller closes it.
func (s source) fetch(ctx context.Context, cfg clientv3.Config, scratch string, progress func(snapshot.Progress)) (_ *fetched, err error) {
	f, err := os.CreateTemp(scratch, "holdfast-fetch-")
	if err != nil {
		return nil, fmt.Errorf("create scratch file: %w", err)
	}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	if err := os.Remove(f.Name()); err != nil {
		return nil, fmt.Errorf("create scratch file: %w", err)
	}
	cfg.Endpoints = []string{s.endpoint}
	client, err := clientv3.New(cfg)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := client.SnapshotWithVersion(ctx)
	if err != nil {
		return nil, err
	}
	defer stream.Snapshot.Close()
	size, err := receive(f, stream.Snapshot, s.status.DbSize, progress)
	if err != nil {
		return nil, err
	}
	return openFetched(f, size)
}
