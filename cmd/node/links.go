package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"go.etcd.io/etcd/client/pkg/v3/transport"

	"holdfast/embedded/health"
	"holdfast/embedded/plan"
	"holdfast/embedded/settings"
)

const (
	linksTime = 5 * time.Second // for the answer of each member
	// linksGauge is 1 for each member to which raft is connected. etcd uses the same state before it changes members
	// (rafthttp, metrics.go and peer_status.go). All versions of etcd export it, without authentication.
	linksGauge = "etcd_network_active_peers"
	mostLinks  = 32 << 20 // bytes of an answer
)

// severed returns why the cluster may have no quorum without this node's member, because the members that another
// program runs may not reach each other. It is "" if there is a quorum.
func (n routes) severed(ctx context.Context) string {
	s := n.statusOfAll(ctx)
	t, told, urls := n.takeoverOf(s), s.Links(), n.etcd.ClientURLs()
	client, err := membersClient(n.cfg.Etcd.ClientTLS)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, m := range t.Abroad() {
		wg.Go(func() {
			links := health.Links{}
			if err != nil {
				links.Err = err.Error()
			} else {
				links = askLinks(ctx, client, urls[uint64(m.Member)], m.Member)
			}
			mu.Lock()
			defer mu.Unlock()
			told[m.Member] = links
		})
	}
	wg.Wait()
	return t.Severed(plan.ID(n.etcd.Status().ID), told)
}

// membersClient returns an HTTP client for the members. It shows the certificate that etcd's own gateway shows.
func membersClient(c settings.ClientTLS) (*http.Client, error) {
	own := &http.Transport{DisableKeepAlives: true}
	if c.CertFile == "" {
		return &http.Client{Transport: own}, nil
	}
	var err error
	own.TLSClientConfig, err = transport.TLSInfo{CertFile: c.CertFile, KeyFile: c.KeyFile,
		TrustedCAFile: c.TrustedCAFile}.ClientConfig()
	if err != nil {
		err = fmt.Errorf("read %s, %s and %s: %w", c.CertFile, c.KeyFile, c.TrustedCAFile, err)
	}
	return &http.Client{Transport: own}, err
}

// askLinks asks a member at all its client URLs, in parallel, which members it is connected to. It ignores the answer
// of another member, which may come from a URL such as one with localhost.
func askLinks(ctx context.Context, client *http.Client, urls []string, id plan.ID) health.Links {
	ctx, cancel := context.WithTimeout(ctx, linksTime)
	defer cancel()
	if len(urls) == 0 {
		return health.Links{Err: "the member has told no client URL"}
	}
	told, failed := make([]*health.Links, len(urls)), make([]string, len(urls))
	var wg sync.WaitGroup
	for i, url := range urls {
		wg.Go(func() {
			peers, err := linksAt(ctx, client, url, id)
			if err != nil {
				failed[i] = err.Error()
				return
			}
			told[i] = &health.Links{Peers: peers}
			cancel()
		})
	}
	wg.Wait()
	for _, l := range told {
		if l != nil {
			return *l
		}
	}
	return health.Links{Err: strings.Join(failed, "; ")}
}

func linksAt(ctx context.Context, client *http.Client, url string, id plan.ID) (peers []plan.ID, err error) {
	url = strings.TrimSuffix(url, "/") + "/metrics"
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(r)
	if err != nil {
		return nil, err // it names the URL
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %s", url, resp.Status)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(io.LimitReader(resp.Body, mostLinks))
	if err == nil {
		peers, err = linksOf(families[linksGauge], id)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", url, err)
	}
	return peers, nil
}

// linksOf returns the members to which the member with this ID is connected, according to the gauge.
func linksOf(gauge *dto.MetricFamily, id plan.ID) (peers []plan.ID, err error) {
	mine := false
	for _, m := range gauge.GetMetric() {
		label := func(name string) string {
			i := slices.IndexFunc(m.GetLabel(), func(l *dto.LabelPair) bool { return l.GetName() == name })
			if i < 0 {
				return ""
			}
			return m.GetLabel()[i].GetValue()
		}
		if label("Local") != id.String() {
			continue
		}
		mine = true
		if m.GetGauge().GetValue() > 0 {
			var peer plan.ID
			if err := peer.UnmarshalText([]byte(label("Remote"))); err != nil {
				return nil, fmt.Errorf("a member that it is connected to: %w", err)
			}
			peers = append(peers, peer)
		}
	}
	if !mine {
		return nil, errors.New("the member " + id.String() + " does not answer there, or was connected to no other yet")
	}
	return peers, nil
}
