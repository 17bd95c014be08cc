package cmd

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"holdfast/cmd/config"
	"holdfast/cmd/node"
	"holdfast/cmd/show"
	"holdfast/embedded/health"
	"holdfast/embedded/pki/authorities"
	"holdfast/snapshot"
)

// tlsCA makes authorities by command, and a configuration that uses them.
func tlsCA(t *testing.T) (configPath string, cfg config.Config) {
	t.Helper()
	dir := t.TempDir()
	if out, err := execute("tls", "init", filepath.Join(dir, "ca"), "--life", "1y"); err != nil {
		t.Fatal(err, out)
	}
	configPath = filepath.Join(dir, "holdfast.yaml")
	text := "node: {data-dir: " + dir + "/data, name: n1}\ntls: {ca-dir: " + dir + "/ca}\n"
	must(t, os.WriteFile(configPath, []byte(text), 0o600))
	l, err := config.Load(configPath, nil, nil)
	must(t, err)
	return configPath, l.Config
}

func execute(args ...string) (string, error) {
	var out bytes.Buffer
	c := newRoot()
	c.SetArgs(args)
	c.SetOut(&out)
	c.SetErr(&out)
	err := c.Execute()
	return out.String(), err
}

// Nothing that is there is overwritten, a dry run writes nothing, and what is issued is good.
func TestTLSCommands(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ca")
	if out, err := execute("tls", "init", dir, "--dry-run"); err != nil || !strings.Contains(out, "nothing was changed") {
		t.Errorf("init --dry-run: %v, %s", err, out)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("init --dry-run made the directory")
	}
	_, first := tlsCA(t)
	key := first.TLS.PeerCAKeyFile
	before, _ := os.ReadFile(key)
	must(t, os.Remove(first.TLS.ClientCAFile))
	if _, err := execute("tls", "init", filepath.Dir(key)); err == nil || !strings.Contains(err.Error(), "exists") {
		t.Errorf("init over a part of what it makes: %v", err)
	}
	if after, _ := os.ReadFile(key); !bytes.Equal(before, after) {
		t.Error("init has overwritten a key")
	}
	if _, err := os.Stat(first.TLS.ClientCAFile); err == nil {
		t.Error("init that was refused has written a file")
	}

	configPath, cfg := tlsCA(t)
	if info, err := os.Stat(cfg.TLS.PeerCAKeyFile); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key: %v, %v", info, err)
	}
	to := t.TempDir()
	issue := []string{"tls", "client", "kube", "--to", to, "--config", configPath}
	if out, err := execute(append(issue, "--dry-run")...); err != nil || !strings.Contains(out, "nothing was changed") {
		t.Errorf("client --dry-run: %v, %s", err, out)
	}
	if files, _ := os.ReadDir(to); len(files) > 0 {
		t.Errorf("client --dry-run wrote %v", files)
	}
	if out, err := execute(issue...); err != nil {
		t.Fatal(err, out)
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(to, "kube.crt"), filepath.Join(to, "kube.key"))
	must(t, err)
	pool := x509.NewCertPool()
	ca, err := os.ReadFile(filepath.Join(to, "ca.crt"))
	if err != nil || !pool.AppendCertsFromPEM(ca) {
		t.Fatalf("ca.crt: %v", err)
	}
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil || pair.Leaf.Subject.CommonName != "kube" {
		t.Errorf("the certificate of %s: %v", pair.Leaf.Subject, err)
	}
	if _, err := execute(issue...); err == nil || !strings.Contains(err.Error(), "never overwritten") {
		t.Errorf("client again: %v", err)
	}
	// The authorities' file of another is no less worth than a key.
	_, other := tlsCA(t)
	foreign, err := os.ReadFile(other.TLS.ClientCAFile)
	must(t, err)
	for _, text := range [][]byte{foreign, append(slices.Clone(ca), foreign...), []byte("x")} {
		write(t, filepath.Join(to, "ca.crt"), text)
		for _, more := range []string{"--dry-run", "--dry-run=false"} {
			_, err := execute("tls", "client", "second", "--to", to, "--config", configPath, more)
			if err == nil || !strings.Contains(err.Error(), "ca.crt") || !strings.Contains(err.Error(), "not overwritten") {
				t.Errorf("over other authorities, %s: %v", more, err)
			}
		}
		if got, _ := os.ReadFile(filepath.Join(to, "ca.crt")); !bytes.Equal(got, text) {
			t.Errorf("got %s", got)
		}
	}
	write(t, filepath.Join(to, "ca.crt"), ca)
	if out, err := execute("tls", "client", "second", "--to", to, "--config", configPath); err != nil {
		t.Errorf("a second client beside the first: %v, %s", err, out)
	}
	for _, name := range []string{"../x", "", "a/b", "-x"} {
		if _, err := execute("tls", "client", "--to", to, "--config", configPath, "--", name); err == nil {
			t.Errorf("a client named %q was accepted", name)
		}
	}
	if _, err := execute("tls", "client", "x", "--to", to, "--node.data-dir", t.TempDir()); err == nil {
		t.Error("a node without TLS issues certificates")
	}
}

// Nobody overlooks that etcd is open.
func TestInsecureIsShown(t *testing.T) {
	s := health.ClusterStatus{Nodes: []health.NodeStatus{{Node: "n1", Reached: true, TLS: &health.TLSStatus{Mode: "off", Insecure: true}}, {Node: "n2", TLS: &health.TLSStatus{Mode: "auto"}}, {Node: "n3"}}}
	s.Judge(nil)
	if got := show.Status(s, time.Now()); !strings.Contains(got, "reach etcd on n1 without TLS") {
		t.Errorf("got %s", got)
	}
}

// Without a node that answers, `tls show` says what the store knows of a rotation, and that it knows no more.
func TestRotationWithoutANode(t *testing.T) {
	dir := t.TempDir()
	configPath := filepath.Join(dir, "holdfast.yaml")
	text := "cluster: {name: main}\nnode: {data-dir: " + dir + "/data, name: n1}\ntls: {mode: auto}\n" +
		"snapshot: {store: " + dir + "/store}\n"
	must(t, os.WriteFile(configPath, []byte(text), 0o600))
	must(t, os.Mkdir(filepath.Join(dir, "store"), 0o700))
	tlsShow := func(format string) string {
		t.Helper()
		out, err := execute("tls", "show", "--config", configPath, "-o", format)
		if err != nil {
			t.Fatal(err, out)
		}
		return out
	}
	if out := tlsShow("table"); !strings.Contains(out, "whether a rotation is open is not known") {
		t.Errorf("before the node has run: %s", out)
	}
	l, err := config.Load(configPath, nil, nil)
	must(t, err)
	a := authorities.New(node.EditionOptions(l.Config), snapshot.NewDir(filepath.Join(dir, "store")), zap.NewNop())
	if _, err := a.Authorities(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Advance(t.Context(), authorities.View{}, authorities.Order{Begin: true, By: "root"}, false); err != nil {
		t.Fatal(err)
	}
	table := tlsShow("table")
	for _, part := range []string{"CA ROTATION introduced", "root asked for it", "not known here"} {
		if !strings.Contains(table, part) {
			t.Errorf("want %q in %s", part, table)
		}
	}
	var shown show.TLS
	err = json.Unmarshal([]byte(tlsShow("json")), &shown)
	if err != nil || shown.Rotation == nil || shown.Rotation.Phase != "introduced" || len(shown.Certificates) == 0 {
		t.Errorf("json: %v, %+v", err, shown)
	}
}
