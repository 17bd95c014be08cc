package takeover

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"holdfast/cmd/certificates"
	"holdfast/cmd/config"
	"holdfast/embedded"
	"holdfast/embedded/pki"
)

// askTime limits how long an etcd may take to answer, here or on another machine.
const askTime = 5 * time.Second

// askLife is the life of the certificate that is issued to ask an etcd.
const askLife = 10 * time.Minute

// ask asks the etcd on this machine for its members, at the client URLs of the configuration.
func ask(ctx context.Context, cfg config.Config) (*Told, error) {
	secure, err := clientTLS(ctx, cfg)
	if err != nil {
		return nil, err
	}
	var tried, silent []string
	for _, endpoint := range slices.Concat(cfg.Etcd.ListenClientURLs, cfg.Etcd.AdvertiseClientURLs) {
		u, err := url.Parse(endpoint)
		if err != nil || slices.Contains(tried, u.Host) {
			continue
		}
		tried = append(tried, u.Host)
		if ip, err := netip.ParseAddr(u.Hostname()); err == nil && ip.IsUnspecified() {
			u.Host = net.JoinHostPort("127.0.0.1", u.Port())
		}
		told, err := askAt(ctx, u, secure)
		if err == nil {
			return told, nil
		}
		silent = append(silent, fmt.Sprintf("%s: %v", u, err))
	}
	return nil, errors.New(strings.Join(silent, "; "))
}

func askAt(ctx context.Context, at *url.URL, secure *tls.Config) (*Told, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", at.Host) // etcd's client would not return the reason
	if err != nil {
		return nil, err
	}
	conn.Close()
	endpoint := at.String()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, TLS: secure, Logger: zap.NewNop()})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	status, err := c.Status(ctx, endpoint)
	if err != nil {
		return nil, err
	}
	list, err := c.MemberList(ctx)
	if err != nil {
		return nil, err
	}
	told := &Told{Endpoint: endpoint, Leader: status.Leader}
	for _, m := range list.Members {
		told.Members = append(told.Members, embedded.ListedMember{ID: m.ID, Name: m.Name, PeerURLs: m.PeerURLs,
			Learner: m.IsLearner})
	}
	told.Version, err = versionAt(ctx, endpoint, secure)
	return told, err
}

// versionAt asks for the cluster version. Only etcd's HTTP API has it.
func versionAt(ctx context.Context, endpoint string, secure *tls.Config) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, endpoint+"/version", nil)
	if err != nil {
		return "", err
	}
	resp, err := (&http.Client{Transport: &http.Transport{TLSClientConfig: secure, DisableKeepAlives: true}}).Do(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var answer struct {
		Cluster string `json:"etcdcluster"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return "", fmt.Errorf("read the version: %w", err)
	}
	return answer.Cluster, nil
}

// clientTLS returns the TLS configuration of a client of this cluster, or nil without TLS.
func clientTLS(ctx context.Context, cfg config.Config) (*tls.Config, error) {
	if cfg.Etcd.CertFile == "" {
		return nil, nil
	}
	if !cfg.TLS.Issues() {
		return transport.TLSInfo{CertFile: cfg.Etcd.CertFile, KeyFile: cfg.Etcd.KeyFile,
			TrustedCAFile: cfg.Etcd.TrustedCAFile}.ClientConfig()
	}
	issued, err := certificates.Issue(ctx, cfg, pki.Client, "takeover-plan", nil, askLife)
	if err != nil {
		return nil, err
	}
	own, err := tls.X509KeyPair(issued.Certificate, issued.Key)
	if err != nil {
		return nil, err
	}
	trusted, err := pki.ParseCertificates(issued.CA)
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{own},
		RootCAs: pki.Pool(trusted...)}, err
}

// peersPool returns the authorities with which this node would verify the other members, or nil without TLS.
func peersPool(ctx context.Context, cfg config.Config) (*x509.CertPool, error) {
	switch {
	case cfg.Etcd.PeerCertFile == "":
		return nil, nil
	case cfg.TLS.Issues():
		known, _, err := certificates.Trusted(ctx, cfg)
		if err != nil {
			return nil, err
		}
		return pki.Pool(known.Peers.Bundle...), nil
	case cfg.Etcd.PeerTrustedCAFile == "":
		return nil, nil
	}
	return config.ReadPool(cfg.Etcd.PeerTrustedCAFile)
}

// reach tries to reach the members on other machines at their peer URLs.
func reach(ctx context.Context, cfg config.Config, urls map[string]string) (all []Reach) {
	pool, err := peersPool(ctx, cfg)
	for _, slot := range slices.Sorted(maps.Keys(urls)) {
		r := Reach{Slot: slot, URL: urls[slot], Distrust: err}
		r.try(ctx, cfg, pool)
		all = append(all, r)
	}
	return all
}

func (r *Reach) try(ctx context.Context, cfg config.Config, pool *x509.CertPool) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	host, port, err := hostOf(r.URL)
	if err != nil {
		r.Unknown = err
		return
	}
	addresses, err := addressesOf(ctx, cfg, r.Slot, host)
	if err != nil {
		r.Unknown = err
		return
	}
	var conn net.Conn
	for _, a := range addresses {
		if conn, r.Silent = (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(a.String(), port)); r.Silent == nil {
			break
		}
	}
	if r.Silent != nil {
		return
	}
	defer conn.Close()
	if !strings.HasPrefix(r.URL, "https:") || pool == nil || r.Distrust != nil {
		return
	}
	r.Distrust = distrust(ctx, conn, host, pool)
}

// distrust returns why the certificate that a member presents is not trusted. The handshake itself may fail, because
// the member wants a certificate that this node may not have yet. The member's certificate comes before that.
func distrust(ctx context.Context, conn net.Conn, host string, pool *x509.CertPool) error {
	var chain []*x509.Certificate
	over := tls.Client(conn, &tls.Config{ServerName: host, InsecureSkipVerify: true, //nolint:gosec // it is verified below
		VerifyConnection: func(s tls.ConnectionState) error {
			chain = s.PeerCertificates
			return nil
		}})
	err := over.HandshakeContext(ctx)
	if len(chain) == 0 {
		return fmt.Errorf("it presents none: %w", err)
	}
	_, err = chain[0].Verify(x509.VerifyOptions{Roots: pool, Intermediates: pki.Pool(chain[1:]...), DNSName: host})
	return err
}
