package integration_test

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"holdfast/embedded/health"
	"holdfast/embedded/pki/pkitest"
	"holdfast/integration"
)

// A restore without leases has left endpoints of Kubernetes behind, a certificate has expired, and a node is drained
// and forgotten. The doctor finds all of it from any node. It deletes only the stale endpoint, which the history
// shows, and says what it cannot know without a node.
func TestDoctor(t *testing.T) {
	story(t)
	c := cluster(t, integration.Options{})
	c.Nodes[1].Keys["etcd.cert-file"], c.Nodes[1].Keys["etcd.key-file"] = expired(t) // only its clients see this certificate
	c.Start()
	c.Serving()                                                         // never healthy, because the status also shows the certificate
	must(t, os.Chmod(c.Nodes[1].Keys["etcd.key-file"].(string), 0o644)) // after its start, which would have been refused
	n, drained := c.Nodes[0], c.Nodes[2]
	client := dialed(t, c.Endpoints(n)...)
	lease, err := client.Grant(t.Context(), 600)
	must(t, err)
	const living, stale = "/registry/masterleases/10.0.0.1", "/registry/masterleases/10.0.0.3"
	_, err = client.Put(t.Context(), living, "x", clientv3.WithLease(lease.ID))
	must(t, err)
	_, err = client.Put(t.Context(), stale, "x")
	must(t, err)
	drain(t, drained, 0, "is down")
	must(t, withRoot(c, n)) // the doctor needs no password

	var got diagnosis
	c.Until(patience, "the doctor finds all", func() error {
		out := n.Command("doctor", "-o", "json")
		if out.Code != 2 {
			return fmt.Errorf("exit code %d, want 2: %s%s", out.Code, out.Out, out.Err)
		}
		got = diagnosis{}
		must(t, json.Unmarshal([]byte(out.Out), &got))
		for _, want := range [][3]string{
			{"kubernetes-endpoint-stale", "degraded", stale + " is bound to no lease"},
			{"certificate-ended", "critical", "CN=old expired at"},
			{"secret-open", "warning", "etcd.key-file is open to other users"},
			{"drained", "degraded", "an operator drained " + drained.Name},
			{"member-cut-off", "degraded", "2 of 3 voters are connected"},
			{"backup-none", "degraded", "no verified backup"},
		} {
			if !got.has(want[0], want[1], want[2]) {
				return fmt.Errorf("nothing of %q in %s", want, out.Out)
			}
		}
		for _, area := range []string{"clocks", "alarms"} {
			if !slices.Contains(got.Well, area) {
				return fmt.Errorf("%s is not well in %s", area, out.Out)
			}
		}
		return nil
	})
	for _, f := range got.Findings {
		if strings.Contains(f.Text, living) || f.Fix != nil && !strings.Contains(f.Fix.ID, stale) {
			t.Errorf("also offered: %+v", f)
		}
	}

	const question = "delete " + stale + " at revision "
	if out := n.Command("doctor", "--fix", "--dry-run"); out.Code != 2 || !strings.Contains(out.Err, "would "+question) || !strings.Contains(out.Err, "nothing was changed") {
		t.Errorf("dry run: %+v", out)
	}
	if out := n.Command("doctor", "--fix"); out.Code != 1 || !strings.Contains(out.Err, "there is no terminal to ask on") {
		t.Errorf("without a terminal: %+v", out)
	}
	if out := c.Nodes[1].Command("doctor", "--fix", "--yes", "-o", "json"); out.Code != 2 || !strings.Contains(out.Err, "done: "+question) || strings.Contains(out.Out, "kubernetes-endpoint-stale") {
		t.Errorf("with --yes: %+v", out)
	}
	if out := c.Nodes[1].Command("history", "-o", "json"); !strings.Contains(out.Out, `doctor fix=\"`+question) {
		t.Errorf("not in the history: %+v", out)
	}
	for _, id := range []string{question + "7", "delete " + living + " at revision 2", ""} {
		if text := posted(t, n, "/doctor?fix="+url.QueryEscape(id)); !strings.Contains(text, "is no repair that is offered by now") {
			t.Errorf("the node did not refuse %q: %s", id, text)
		}
	}
	if left := keysBelow(t, c, n, "/registry/masterleases/"); len(left) != 1 || left[0] != living {
		t.Errorf("left are %q, want %q", left, living)
	}
	if out := drained.Command("doctor"); out.Code != 2 || !strings.Contains(out.Out, "[!] not-examined: keys below /registry/masterleases/: ") {
		t.Errorf("on a node without a member: %+v", out)
	}
	c.Nodes[1].Kill()
	out := c.Nodes[1].Command("doctor")
	if out.Code != 2 || !strings.Contains(out.Out, "[!] not-examined: no node was asked: ") || !strings.Contains(out.Out, "CN=old expired at") {
		t.Errorf("without a node: %+v", out)
	}
}

// diagnosis is the doctor's answer in JSON.
type diagnosis struct {
	Findings []health.Finding
	Well     []string
}

func (d diagnosis) has(code, severity, text string) bool {
	return slices.ContainsFunc(d.Findings, func(f health.Finding) bool {
		return f.Code == health.Code(code) && f.Severity == health.Severity(severity) && strings.Contains(f.Text, text)
	})
}

// expired makes a certificate that expired a day ago, and its key, with private modes.
func expired(t *testing.T) (certFile, keyFile string) {
	t.Helper()
	now, dir := time.Now(), t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	of := x509.Certificate{Subject: pkix.Name{CommonName: "old"},
		NotBefore: now.Add(-48 * time.Hour), NotAfter: now.Add(-24 * time.Hour)}
	pkitest.Write(t, pkitest.Sign(t, nil, of), certFile, keyFile)
	return certFile, keyFile
}

// posted posts to a node's control socket and returns the raw answer.
func posted(t *testing.T, n *integration.Node, path string) string {
	t.Helper()
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", n.Socket())
	}}}
	resp, err := client.Post("http://holdfast"+path, "", nil)
	must(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must(t, err)
	return string(text)
}

// keysBelow reads as root through one node.
func keysBelow(t *testing.T, c *integration.Cluster, n *integration.Node, prefix string) (keys []string) {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: c.Endpoints(n), DialTimeout: 5 * time.Second, Username: "root", Password: "secret"})
	must(t, err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	got, err := client.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	must(t, err)
	for _, kv := range got.Kvs {
		keys = append(keys, string(kv.Key))
	}
	return keys
}
