package integration_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"holdfast/integration"
	"holdfast/integration/hosts"
)

// server is a process with a member of etcd.
type server interface {
	Start(env ...string)
	Signal(s syscall.Signal)
	Exit(within time.Duration) int
	ClientURL() string
}

// rival is one of the two clusters that are compared.
type rival struct {
	kind    string
	dir     string // contains everything, with the same layout for both
	servers []server
	env     []string    // added to the environment of their processes
	tls     *tls.Config // of clients; nil: http
}

// logLevel is the log level of both. It is the one default that differs: warn in holdfast, info in etcd.
const logLevel = "warn"

// newRivals makes a cluster of each kind; nothing runs yet. Both have etcd's defaults except for the log level.
func newRivals(b *testing.B) []*rival { return newRivalsOn(b, nil, false) }

// newRivalsOn makes the rivals on hosts of a network, unless that is nil. If secure, members and clients use TLS.
func newRivalsOn(b *testing.B, network *hosts.Network, secure bool) []*rival {
	b.Helper()
	etcd, err := etcdBinary()
	if err != nil {
		b.Fatal(err)
	}
	ours, c := holdfastRival(b, kindHoldfast, network)
	theirs := &rival{kind: kindEtcd, dir: c.Dir}
	authorities := ""
	if secure {
		authorities = overTLS(b, c)
		ours.tls, theirs.tls = c.TLS, c.TLS
	}
	var founders []string
	for i := range c.Nodes {
		p := &plain{b: b, binary: etcd, name: fmt.Sprintf("e%d", i+1), address: c.Address(101 + i)}
		if network != nil {
			if p.host, err = network.Add(p.name); err != nil {
				b.Fatal(err)
			}
			p.address = p.host.Address().String()
		}
		p.dir = filepath.Join(c.Dir, p.name)
		p.data = filepath.Join(p.dir, "etcd")
		if err := os.Mkdir(p.dir, 0o700); err != nil {
			b.Fatal(err)
		}
		if secure {
			p.secure(authorities)
		}
		founders = append(founders, p.name+"="+p.url(2380))
		theirs.servers = append(theirs.servers, p)
	}
	for _, s := range theirs.servers {
		s.(*plain).founders = strings.Join(founders, ",")
	}
	b.Cleanup(func() { ours.kill(); theirs.kill() }) // before c removes the directories
	return []*rival{ours, theirs}
}

// holdfastRival makes a cluster of holdfast. Its processes get env as well.
func holdfastRival(b *testing.B, kind string, network *hosts.Network, env ...string) (*rival, *integration.Cluster) {
	b.Helper()
	path, err := binary()
	if err != nil {
		b.Fatal(err)
	}
	c := integration.New(b, path, integration.Options{Keys: map[string]any{"etcd.log-level": logLevel}, Net: network})
	r := &rival{kind: kind, dir: c.Dir, env: env}
	for _, n := range c.Nodes {
		r.servers = append(r.servers, n)
	}
	return r, c
}

// runningRivals returns two clusters that serve, over TLS if secure.
func runningRivals(b *testing.B, secure bool) []*rival {
	b.Helper()
	rivals := newRivalsOn(b, nil, secure)
	startAll(b, rivals)
	return rivals
}

// startAll starts the rivals, and waits until they serve.
func startAll(b *testing.B, rivals []*rival) {
	b.Helper()
	for _, r := range rivals {
		r.start()
		r.serving(b)
	}
}

func (r *rival) start() {
	for _, s := range r.servers {
		s.Start(r.env...)
	}
}

func (r *rival) kill() {
	for _, s := range r.servers {
		s.Signal(syscall.SIGKILL)
		s.Exit(time.Minute)
	}
}

// serving waits until every server has acknowledged a write.
func (r *rival) serving(b *testing.B) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	var group errgroup.Group
	for _, s := range r.servers {
		group.Go(func() error { return firstWrite(ctx, r.tls, s.ClientURL()) })
	}
	if err := group.Wait(); err != nil {
		b.Fatalf("%s does not serve: %v", r.kind, err)
	}
}

func firstWrite(ctx context.Context, over *tls.Config, url string) error {
	client, err := dialOver(over, url)
	if err != nil {
		return err
	}
	defer client.Close()
	for {
		call, cancel := context.WithTimeout(ctx, time.Second)
		_, err := client.Put(call, "bench/first", url)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("write through %s: %w", url, err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// leader returns the server whose member leads, and the client URLs of the others.
func (r *rival) leader(b *testing.B) (leader server, others []string) {
	b.Helper()
	for leader == nil {
		others = nil
		for _, s := range r.servers {
			if leads(b, s.ClientURL()) {
				leader = s
			} else {
				others = append(others, s.ClientURL())
			}
		}
	}
	return leader, others
}

func leads(b *testing.B, url string) bool {
	b.Helper()
	client := mustDial(b, url)
	defer client.Close()
	ctx, cancel := context.WithTimeout(b.Context(), 10*time.Second)
	defer cancel()
	status, err := client.Status(ctx, url)
	if err != nil {
		b.Fatalf("ask %s for its leader: %v", url, err)
	}
	return status.Leader == status.Header.MemberId
}

// usage sums up what the processes of a rival say of themselves: CPU seconds since their start, and resident bytes.
func (r *rival) usage(b *testing.B) (cpu, resident float64) {
	b.Helper()
	client := http.Client{Transport: &http.Transport{TLSClientConfig: r.tls, DisableKeepAlives: true}}
	for _, s := range r.servers {
		resp, err := client.Get(s.ClientURL() + "/metrics")
		if err != nil {
			b.Fatal(err)
		}
		lines := bufio.NewScanner(resp.Body)
		for lines.Scan() {
			name, value, _ := strings.Cut(lines.Text(), " ")
			number, _ := strconv.ParseFloat(value, 64)
			switch name {
			case "process_cpu_seconds_total":
				cpu += number
			case "process_resident_memory_bytes":
				resident += number
			}
		}
		resp.Body.Close()
		if err := lines.Err(); err != nil {
			b.Fatal(err)
		}
	}
	return cpu, resident
}

// dial makes a client that tries a server that is not there yet again and again; gRPC would wait for a second.
func dial(urls ...string) (*clientv3.Client, error) { return dialOver(nil, urls...) }

// dialOver is dial over TLS, unless that is nil.
func dialOver(over *tls.Config, urls ...string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{
		Endpoints: urls, Logger: zap.NewNop(), TLS: over,
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1, MaxDelay: 10 * time.Millisecond},
			MinConnectTimeout: 5 * time.Second,
		})},
	})
}

func mustDial(b *testing.B, urls ...string) *clientv3.Client {
	b.Helper()
	return mustDialOver(b, nil, urls...)
}

func mustDialOver(b *testing.B, over *tls.Config, urls ...string) *clientv3.Client {
	b.Helper()
	client, err := dialOver(over, urls...)
	if err != nil {
		b.Fatal(err)
	}
	return client
}

// etcdBinary builds plain etcd once, from the module that holdfast embeds, in the way holdfast is built.
var etcdBinary = sync.OnceValues(func() (string, error) {
	path := filepath.Join(work, "etcd")
	cmd := exec.Command("go", "build", "-o", path, "go.etcd.io/etcd/server/v3")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build etcd: %w\n%s", err, out)
	}
	return path, nil
})

// plain is a process of plain etcd.
type plain struct {
	b        testing.TB
	binary   string
	name     string // of the member
	address  string
	dir      string
	data     string      // its data directory
	host     *hosts.Host // where it runs; nil: on this machine
	founders string      // etcd's initial-cluster
	joins    bool        // a cluster that exists
	tls      []string    // flags; none: http

	cmd  *exec.Cmd     // the present or the last one; nil before the first start
	done chan struct{} // closed when it has ended
}

func (p *plain) ClientURL() string { return p.url(2379) }

func (p *plain) url(port int) string {
	scheme := "http"
	if len(p.tls) > 0 {
		scheme = "https"
	}
	return fmt.Sprintf("%s://%s:%d", scheme, p.address, port)
}

// secure gives the process certificates of authorities that `tls init` has made.
func (p *plain) secure(authorities string) {
	p.b.Helper()
	for flags, authority := range map[string]string{"--": "etcd-clients-ca", "--peer-": "etcd-peers-ca"} {
		dir := filepath.Join(p.dir, authority)
		must(p.b, os.MkdirAll(dir, 0o700))
		writePair(p.b, dir, signed(p.b, authorities, authority, p.name, p.address, "127.0.0.1"))
		pair := filepath.Join(dir, "pair.pem")
		p.tls = append(p.tls, flags+"cert-file", pair, flags+"key-file", pair, flags+"trusted-ca-file",
			filepath.Join(authorities, authority+".crt"), flags+"client-cert-auth")
	}
}

func (p *plain) Start(env ...string) {
	p.b.Helper()
	log, err := os.OpenFile(filepath.Join(p.dir, "etcd.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		p.b.Fatal(err)
	}
	defer log.Close()
	peer := p.url(2380)
	state := map[bool]string{false: "new", true: "existing"}[p.joins]
	args := []string{"--name", p.name, "--data-dir", p.data,
		"--listen-client-urls", p.ClientURL(), "--advertise-client-urls", p.ClientURL(),
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
		"--initial-cluster", p.founders, "--initial-cluster-state", state, "--initial-cluster-token", "bench",
		"--log-level", logLevel}
	args = append(args, p.tls...)
	if p.cmd = exec.Command(p.binary, args...); p.host != nil {
		p.cmd = p.host.Command(context.Background(), p.binary, args...)
	}
	p.cmd.Dir, p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = p.dir, append(os.Environ(), env...), log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	done := make(chan struct{})
	p.done = done
	if err := integration.Own(p.cmd, func() { close(done) }); err != nil {
		p.b.Fatal(err)
	}
}

func (p *plain) Signal(s syscall.Signal) {
	if p.cmd != nil {
		_ = p.cmd.Process.Signal(s) // one that has ended is no error
	}
}

func (p *plain) Exit(within time.Duration) int {
	p.b.Helper()
	if p.cmd == nil {
		return 0
	}
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(within):
		p.b.Fatalf("%s has not ended within %s", p.name, within)
		return 0
	}
}
