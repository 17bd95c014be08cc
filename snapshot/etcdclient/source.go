package etcdclient

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"holdfast/snapshot"
)

// Timeout is how long a server may take to answer.
const Timeout = 10 * time.Second

// silence is how long a server may send nothing of its database, except in tests. While it is defragmented, it cannot.
var silence = 5 * time.Minute

// Source is the member that a backup is read from.
type Source struct {
	Endpoint string // its URL
	Member   string // its name, or its ID if it has no name or the client may not list the members
	Voters   int    // of its cluster, or 0 if the client may not list the members
	Status   *clientv3.StatusResponse
}

// Choose asks all endpoints and takes the first follower, because the leader has enough to do; otherwise the leader.
func Choose(ctx context.Context, cfg clientv3.Config) (Source, error) {
	client, err := clientv3.New(cfg)
	if err != nil {
		return Source{}, fmt.Errorf("reach %s: %w", strings.Join(cfg.Endpoints, ", "), err)
	}
	defer client.Close()
	var all []Source
	var errs []error
	for _, e := range cfg.Endpoints {
		s, err := askEndpoint(ctx, client, e)
		if err != nil {
			if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil { // this error does not say why
				err = whySilent(ctx, e, cfg.TLS)
			}
			errs = append(errs, fmt.Errorf("ask %s: %w", e, err))
			continue
		}
		if len(all) > 0 && all[0].Status.Header.ClusterId != s.Status.Header.ClusterId {
			return Source{}, fmt.Errorf("--endpoints: %s and %s are of two clusters, %x and %x: name those of one",
				all[0].Endpoint, e, all[0].Status.Header.ClusterId, s.Status.Header.ClusterId)
		}
		all = append(all, s)
	}
	best := -1
	for i, s := range all {
		follows := s.Status.Leader != 0 && s.Status.Leader != s.Status.Header.MemberId
		if s.Status.IsLearner || s.Status.Leader == 0 {
			errs = append(errs, fmt.Errorf("%s is a learner or sees no leader: it may be behind", s.Endpoint))
		} else if best < 0 || follows && all[best].Status.Leader == all[best].Status.Header.MemberId {
			best = i
		}
	}
	if best < 0 {
		return Source{}, fmt.Errorf("none of the endpoints can be saved: %w", errors.Join(errs...))
	}
	return all[best], nil
}

// whySilent finds out why an endpoint gave no answer to etcd's client.
func whySilent(ctx context.Context, endpoint string, config *tls.Config) error {
	u, err := url.Parse(endpoint)
	if err != nil {
		return err
	}
	host := u.Host
	if u.Port() == "" {
		host = net.JoinHostPort(u.Hostname(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	}
	dialer := net.Dialer{Timeout: Timeout}
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
	return fmt.Errorf("something listens there, but does not answer as etcd does within %s: is it etcd's "+
		"client port, and is %s right?", Timeout, u.Scheme)
}

func askEndpoint(ctx context.Context, client *clientv3.Client, endpoint string) (Source, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	status, err := client.Status(ctx, endpoint)
	if err != nil {
		return Source{}, err
	}
	s := Source{Endpoint: endpoint, Member: fmt.Sprintf("%x", status.Header.MemberId), Status: status}
	list, err := client.MemberList(ctx)
	if err != nil { // the list is only used for display
		return s, nil
	}
	for _, m := range list.Members {
		if !m.IsLearner {
			s.Voters++
		}
		if m.ID == status.Header.MemberId && m.Name != "" {
			s.Member = m.Name
		}
	}
	return s, nil
}

// Fetch copies the member's database into a scratch file and opens it. The caller closes it.
func (s Source) Fetch(ctx context.Context, cfg clientv3.Config, opt snapshot.Options) (snapshot.Tx, error) {
	cfg.Endpoints = []string{s.Endpoint}
	client, err := clientv3.New(cfg)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	late := time.AfterFunc(silence, func() {
		cancel(fmt.Errorf("it has sent nothing for %s: its disk may hang, or it is being defragmented", silence))
	})
	defer late.Stop()
	stream, err := client.SnapshotWithVersion(ctx)
	late.Stop()
	if err != nil {
		return nil, cmp.Or(context.Cause(ctx), err)
	}
	defer stream.Snapshot.Close()
	tx, err := snapshot.Receive(ctx, heard{stream.Snapshot, late}, opt)
	if err != nil {
		return nil, cmp.Or(context.Cause(ctx), err)
	}
	return tx, nil
}

// heard is a stream whose server must not be silent for long. A member whose disk hangs still answers pings.
type heard struct {
	r    io.Reader
	late *time.Timer
}

func (h heard) Read(p []byte) (int, error) {
	h.late.Reset(silence)
	defer h.late.Stop()
	return h.r.Read(p)
}
