package integration_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"holdfast/integration"
	"holdfast/integration/hosts"
)

// managerVariable names a directory with the programs etcd-manager and etcd-manager-ctl, and with etcd in
// etcd-v<version> for each version that the stories run. Only their own stories need the versions of 3.5. Version
// 3.6.11 also needs etcdutl, because etcd-manager restores all backups of 3.6 with it. These programs are not part of
// holdfast, and not in its tree.
const managerVariable = "HOLDFAST_TEST_ETCD_MANAGER"

// kops' names and paths, in a cluster without a cloud.
const (
	kopsSuffix = ".internal.k8s.example.com"
	kopsEtcd   = "3.6.16"
)

// kops is one of the clusters that kops runs on the same machines.
type kops struct {
	name                           string // of the cluster
	volumes                        string // prefix of the volumes' and the members' names
	pki                            string // directory of the authorities on a machine
	client, peer, grpc, quarantine int    // ports
}

var (
	kopsMain   = kops{"etcd", "etcd-", "/etc/kubernetes/pki/etcd-manager", 4001, 2380, 3996, 3994}
	kopsEvents = kops{"etcd-events", "events-", "/etc/kubernetes/pki/etcd-manager-events", 4002, 2381, 3997, 3995}
	kopsCilium = kops{"etcd-cilium", "cilium-", "/etc/kubernetes/pki/etcd-manager-cilium", 4003, 2382, 3991, 3992}
	kopsLeases = kops{"etcd-leases", "leases-", "/etc/kubernetes/pki/etcd-manager-leases", 4004, 2383, 4006, 4005}
)

// farm is a cluster of etcd-manager on three hosts, with kops' flags, names, ports and authorities.
type farm struct {
	*handover
	kops     kops
	programs string      // directory of the other programs
	pki      string      // directory of the authorities
	user     *tls.Config // of kube-apiserver
	roots    []string    // of the hosts: the directories that each has for itself
	// static: etcd-manager has kops' flags for machines without a cloud, including --static-config. It then finds its
	// cluster by files on the volumes, and ignores the store. Otherwise it has a store and seeds, as in a cloud.
	static bool
	seeded bool // holdfast finds the other nodes by the seeds, as etcd-manager does without --static-config
}

// newFarm makes the hosts, runs etcd-manager's main cluster on all of them, and starts the traffic.
func newFarm(t *testing.T, static bool) *farm {
	t.Helper()
	return newFarmOf(t, kopsMain, static)
}

// newFarmOf is newFarm for another of kops' clusters.
func newFarmOf(t *testing.T, k kops, static bool) *farm {
	t.Helper()
	f := newHosts(t, k, static)
	f.prepare()
	f.begin()
	return f
}

// newHosts makes the hosts, on which nothing runs yet.
func newHosts(t *testing.T, k kops, static bool) *farm {
	t.Helper()
	programs := os.Getenv(managerVariable)
	if programs == "" {
		t.Skipf("needs etcd-manager and etcd: build them, and name their directory in %s", managerVariable)
	}
	story(t)
	if err := hosts.Check(); err != nil {
		t.Skip(err)
	}
	holdfast, err := binary()
	must(t, err)
	network, err := hosts.New(hosts.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, network.Close()) })
	c := integration.New(t, holdfast, integration.Options{Net: network})
	f := &farm{handover: &handover{Cluster: c, t: t}, kops: k, programs: programs, static: static}
	for _, n := range c.Nodes {
		f.roots = append(f.roots, filepath.Join(n.Dir, "root"))
		f.furnish(n)
	}
	return f
}

// beside runs another of kops' clusters on the same hosts, with its own authorities, except the clients'.
func (f *farm) beside(k kops) *farm {
	f.t.Helper()
	holdfast, err := binary()
	must(f.t, err)
	c := integration.New(f.t, holdfast, integration.Options{})
	for i, n := range c.Nodes {
		n.Host, n.Address = f.Nodes[i].Host, f.Nodes[i].Address
	}
	other := &farm{handover: &handover{Cluster: c, t: f.t}, kops: k, programs: f.programs, roots: f.roots, static: f.static}
	must(f.t, os.CopyFS(filepath.Join(c.Dir, "pki"), os.DirFS(f.pki)))
	for _, name := range []string{"etcd-manager-ca", "etcd-peers-ca"} {
		for _, kind := range []string{".crt", ".key"} {
			must(f.t, os.Remove(filepath.Join(c.Dir, "pki", name+kind)))
		}
	}
	other.prepare()
	other.begin()
	return other
}

// prepare sets up the hosts for the cluster.
func (f *farm) prepare() {
	f.t.Helper()
	t := f.t
	f.Name, f.pki = f.kops.name, filepath.Join(f.Dir, "pki")
	t.Cleanup(f.report)
	for _, name := range []string{"etcd-manager-ca", "etcd-peers-ca", "etcd-clients-ca"} {
		if _, err := os.Stat(filepath.Join(f.pki, name+".crt")); err != nil {
			rsaAuthority(t, f.pki, name)
		}
	}
	for i := range f.Nodes {
		f.admit(i)
		f.seats = append(f.seats, f.seat(i))
	}
	if !f.static {
		f.ctl("--member-count=3", "--etcd-version="+kopsEtcd, "configure-cluster")
	}
	user := signed(t, f.pki, "etcd-clients-ca", "kube-apiserver")
	pool := x509.NewCertPool()
	text, err := os.ReadFile(filepath.Join(f.pki, "etcd-clients-ca.crt"))
	must(t, err)
	pool.AppendCertsFromPEM(text)
	// etcd-manager's certificates have only the address of their own machine, which kube-apiserver uses. gRPC expects the
	// dialled name, whatever the configuration says.
	f.user = &tls.Config{Certificates: []tls.Certificate{*user}, InsecureSkipVerify: true,
		VerifyConnection: func(s tls.ConnectionState) error {
			_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: pool, DNSName: "127.0.0.1"})
			return err
		}}
}

// begin runs etcd-manager on all hosts and starts the traffic.
func (f *farm) begin() {
	f.t.Helper()
	f.found(func(urls ...string) *traffic {
		f.answer(5*time.Minute, urls...)
		return newTraffic(f.t, f.user, urls...)
	})
	f.agreed("3.6") // otherwise an operator would not take the cluster over yet
}

// answer waits until all of these members answer.
func (f *farm) answer(within time.Duration, urls ...string) {
	f.t.Helper()
	integration.Until(f.t, within, "etcd-manager's cluster serves", func() error {
		for _, url := range urls {
			if err := answers(f.user, url); err != nil {
				return err
			}
		}
		return nil
	})
}

// answers tries a linearizable read.
func answers(over *tls.Config, url string) error {
	c, err := dialOver(over, url)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if _, err = c.Get(ctx, "any"); err != nil {
		return fmt.Errorf("read from %s: %w", url, err)
	}
	return nil
}

// furnish gives a host its own directories /etc, /mnt, /opt and /var/lib.
func (f *farm) furnish(n *integration.Node) {
	f.t.Helper()
	own := filepath.Join(n.Dir, "root")
	etc := filepath.Join(own, "etc")
	for _, dir := range []string{"etc/kubernetes/pki", "etc/kubernetes/etcd-manager/seeds", "mnt/disks", "var/lib/holdfast"} {
		must(f.t, os.MkdirAll(filepath.Join(own, dir), 0o755))
	}
	for name, text := range map[string]string{
		"hosts": "127.0.0.1\tlocalhost\n", "resolv.conf": "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n",
		"nsswitch.conf": "hosts: files dns\n", "passwd": "root:x:0:0:root:/root:/bin/sh\n", "group": "root:x:0:\n",
	} {
		must(f.t, os.WriteFile(filepath.Join(etc, name), []byte(text), 0o644))
	}
	for _, other := range f.Nodes {
		if other != n {
			must(f.t, os.WriteFile(filepath.Join(etc, "kubernetes/etcd-manager/seeds", other.Address), nil, 0o644))
		}
	}
	script := "set -e\n"
	for from, to := range map[string]string{etc: "/etc", filepath.Join(own, "mnt"): "/mnt", f.programs: "/opt",
		filepath.Join(own, "var/lib"): "/var/lib"} {
		script += fmt.Sprintf("mount --bind %s %s\n", from, to)
	}
	if out, err := n.Host.Command(f.t.Context(), "sh", "-c", script).CombinedOutput(); err != nil {
		f.t.Fatalf("furnish %s: %v\n%s", n.Name, err, out)
	}
}

// admit gives a host the volume and the authorities of the cluster.
func (f *farm) admit(i int) {
	f.t.Helper()
	must(f.t, os.MkdirAll(f.volume(i), 0o755))
	pki := filepath.Join(f.roots[i], f.kops.pki)
	must(f.t, os.CopyFS(pki, os.DirFS(f.pki)))
	keys, err := filepath.Glob(filepath.Join(pki, "*.key"))
	must(f.t, err)
	for _, key := range keys {
		must(f.t, os.Chmod(key, 0o600))
	}
}

// volume returns the path of a slot's volume for this process.
func (f *farm) volume(i int) string {
	return filepath.Join(f.roots[i], "mnt/disks", f.kops.volumes+f.Slots[i], "mnt")
}

// acquaint adds the members' names to /etc/hosts of each host, outside etcd-manager's block. When etcd-manager starts
// again, it forgets the others' names until it leads. Without these lines, two of its members would be connected
// during that time only through holdfast's member.
func (f *farm) acquaint() {
	f.t.Helper()
	lines := ""
	for i, n := range f.Nodes {
		lines += fmt.Sprintf("%s\t%s%s%s\n", n.Address, f.kops.volumes, f.Slots[i], kopsSuffix)
	}
	for _, root := range f.roots {
		path := filepath.Join(root, "etc/hosts")
		text, err := os.ReadFile(path)
		must(f.t, err)
		must(f.t, os.WriteFile(path, append([]byte(lines), text...), 0o644))
	}
}

// flags returns the flags that kops writes.
func (f *farm) flags() []string {
	url := func(port int) string { return fmt.Sprintf("https://__name__:%d", port) }
	flags := []string{"--backup-store=file://" + f.Store, "--backup-interval=15m", "--client-urls=" + url(f.kops.client),
		"--cluster-name=" + f.Name, "--dns-suffix=" + kopsSuffix, fmt.Sprintf("--grpc-port=%d", f.kops.grpc),
		"--peer-urls=" + url(f.kops.peer), "--quarantine-client-urls=" + url(f.kops.quarantine), "--v=6",
		"--volume-provider=external", "--volume-tag=" + f.kops.volumes, "--pki-dir=" + f.kops.pki}
	if !f.static {
		flags = append(flags, "--insecure") // its seeds are addresses, which its certificates do not have
	}
	return flags
}

// config returns --static-config, which names the members.
func (f *farm) config() string {
	type node struct {
		ID string   `json:"id"`
		IP []string `json:"ip"`
	}
	config := struct {
		EtcdVersion string `json:"etcdVersion"`
		Nodes       []node `json:"nodes"`
	}{EtcdVersion: kopsEtcd}
	for i, n := range f.Nodes {
		config.Nodes = append(config.Nodes, node{f.kops.volumes + f.Slots[i], []string{n.Address}})
	}
	text, err := json.Marshal(config)
	must(f.t, err)
	return "--static-config=" + string(text)
}

// seat makes a seat with etcd-manager's flags for both programs.
func (f *farm) seat(i int) *seat {
	f.t.Helper()
	n, slot := f.Nodes[i], f.Slots[i]
	s := &seat{t: f.t, slot: slot, url: fmt.Sprintf("https://%s:%d", n.Address, f.kops.client), node: n, stop: syscall.SIGKILL,
		data: f.volume(i)}
	flags := f.flags()
	if f.static {
		flags = append(flags, f.config())
		// The etcd-manager that leads first removes it. On any other volume, it would make etcd-manager found an empty
		// cluster over this one as soon as it leads there.
		if slot == f.Slots[0] {
			must(f.t, os.WriteFile(filepath.Join(s.data, "please-create-new-cluster"), nil, 0o600))
		}
	}
	room := fmt.Sprintf("ETCD_QUOTA_BACKEND_BYTES=%d", quota())
	s.other = func() *program {
		cmd := n.Host.Command(context.Background(), "/opt/etcd-manager", flags...)
		return launch(f.t, cmd, filepath.Join(n.Dir, "etcd-manager.log"), room)
	}
	n.Data = filepath.Join(f.roots[i], "var/lib/holdfast", f.Name) // the path for this process
	bin := filepath.Join(n.Dir, "bin")
	must(f.t, os.MkdirAll(bin, 0o700))
	holdfast, err := binary()
	must(f.t, err)
	link := filepath.Join(bin, "etcd-manager")
	must(f.t, os.Symlink(holdfast, link))
	own, named := f.flags(), ""
	if f.seeded {
		named = " HOLDFAST_CLUSTER_SLOTS=" + strings.Join(f.Slots, ",")
	} else {
		own = append(own, f.config())
	}
	script := "#!/bin/sh\n[ \"$1\" = run ] || exec " + holdfast + " \"$@\"\n" +
		"export HOLDFAST_LOG_FORMAT=json HOLDFAST_SNAPSHOT_DRILL=0s " + room + named + "\n" +
		"exec " + link + " '" + strings.Join(own, "' '") + "'\n"
	n.Binary = filepath.Join(bin, "node")
	must(f.t, os.WriteFile(n.Binary, []byte(script), 0o700))
	return s
}

// ctl runs etcd-manager-ctl on the store, with flags before the command and its arguments.
func (f *farm) ctl(args ...string) string {
	f.t.Helper()
	args = append([]string{"--backup-store=file://" + f.Store}, args...)
	out, err := f.Nodes[0].Host.Command(f.t.Context(), "/opt/etcd-manager-ctl", args...).CombinedOutput()
	if err != nil {
		f.t.Fatalf("etcd-manager-ctl %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// rsaAuthority writes a certificate authority in kops' format.
func rsaAuthority(t *testing.T, dir, name string) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(t, err)
	must(t, os.MkdirAll(dir, 0o700))
	for file, block := range map[string]*pem.Block{name + ".crt": {Type: "CERTIFICATE", Bytes: der},
		name + ".key": {Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}} {
		must(t, os.WriteFile(filepath.Join(dir, file), pem.EncodeToMemory(block), 0o600))
	}
}
