package faults

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/tests/v3/robustness/client"
	"go.etcd.io/etcd/tests/v3/robustness/identity"
	"go.etcd.io/etcd/tests/v3/robustness/report"
	"go.etcd.io/etcd/tests/v3/robustness/traffic"
	"go.uber.org/zap"
	"golang.org/x/time/rate"
)

// profiles are etcd's own kinds of traffic, by their names in a [Schedule].
var profiles = map[string]traffic.Traffic{"etcd": traffic.EtcdPutDeleteLease, "kubernetes": traffic.Kubernetes}

const (
	// rateLimit is the number of requests a second of all clients. The checker's work grows much faster than it.
	rateLimit   = 100
	perMember   = 1                      // clients that know only one member, of each kind
	ofCluster   = 2                      // clients that know all members, of each kind
	nonUnique   = 3                      // concurrent requests that the checker cannot distinguish
	compactions = 500 * time.Millisecond // from one to the next
)

// Traffic is running traffic, which is recorded.
type Traffic struct {
	lg        *zap.Logger
	kind      traffic.Traffic
	endpoints []string
	writers   *client.ClientSet
	watchers  *client.ClientSet
	finish    chan struct{}
	running   sync.WaitGroup
	newest    chan int64 // the last revision that the watchers must see
	watched   chan error
}

// begin starts traffic to the members. The database must be empty, because the model begins at revision 1.
func begin(ctx context.Context, lg *zap.Logger, kind string, endpoints []string) (*Traffic, error) {
	ids, base := identity.NewIDProvider(), time.Now()
	t := &Traffic{
		lg: lg, kind: profiles[kind], endpoints: endpoints,
		writers: client.NewSet(ids, base), watchers: client.NewSet(ids, base),
		finish: make(chan struct{}), newest: make(chan int64, 1), watched: make(chan error, 1),
	}
	if err := traffic.CheckEmptyDatabaseAtStart(ctx, lg, endpoints, t.writers); err != nil {
		return nil, err
	}
	limiter := rate.NewLimiter(rateLimit, rateLimit)
	keys, storage := traffic.NewKeyStore(10, "key"), traffic.NewKubernetesStorage()
	if err := traffic.SimulateKeyValueTraffic(ctx, &t.running,
		&traffic.KeyValue{MemberClientCount: perMember * len(endpoints), ClusterClientCount: ofCluster},
		endpoints, t.writers, t.kind, traffic.RunTrafficLoopParam{
			QPSLimiter: limiter, IDs: ids, LeaseIDStorage: identity.NewLeaseIDStorage(),
			NonUniqueRequestConcurrencyLimiter: traffic.NewConcurrencyLimiter(nonUnique),
			KeyStore:                           keys, Storage: storage, Finish: t.finish,
		}); err != nil {
		return nil, err
	}
	watch := traffic.Watch{MemberClientCount: perMember * len(endpoints), ClusterClientCount: ofCluster,
		RevisionOffsetRange: traffic.WatchDefault.RevisionOffsetRange}
	if err := traffic.SimulateWatchTraffic(ctx, &t.running, &watch, endpoints, t.writers, t.kind,
		traffic.RunWatchLoopParam{
			Config: watch, QPSLimiter: limiter, KeyStore: keys, Storage: storage, Finish: t.finish, Logger: lg,
		}); err != nil {
		return nil, err
	}
	if err := traffic.SimulateCompactionTraffic(ctx, &t.running, &traffic.Compaction{Period: compactions}, endpoints,
		t.writers, t.kind,
		traffic.RunCompactLoopParam{Period: compactions, Finish: t.finish}); err != nil {
		return nil, err
	}
	go func() {
		t.watched <- client.CollectClusterWatchEvents(ctx, client.CollectClusterWatchEventsParam{
			Lg: lg, Endpoints: endpoints, MaxRevisionChan: t.newest, ClientSet: t.watchers,
		})
	}()
	return t, nil
}

// end ends the traffic and returns what every client has seen. The cluster must be healthy: the last write must
// succeed, and a watch on every member must see it.
func (t *Traffic) end(ctx context.Context) ([]report.ClientReport, error) {
	close(t.finish)
	t.running.Wait()
	last, err := t.writers.NewClient(t.endpoints)
	if err != nil {
		return nil, err
	}
	defer t.writers.Close()
	defer t.watchers.Close()
	defer last.Close()
	if _, err := last.Put(ctx, "tombstone", "true"); err != nil {
		return nil, fmt.Errorf("write for the last time: %w", err)
	}
	t.newest <- report.OperationsMaxRevision(t.writers.Reports())
	close(t.newest)
	select {
	case err = <-t.watched:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("watch every member up to the last revision: %w", err)
	}
	return slices.Concat(t.writers.Reports(), t.watchers.Reports()), nil
}
