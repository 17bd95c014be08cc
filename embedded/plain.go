package embedded

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.uber.org/zap"
)

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
