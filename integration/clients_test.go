package integration_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/integration"
)

// A machine without a node keeps its client certificate fresh, over a renewal and a rotation of the authorities, and
// the pair on its disk is valid at every moment. A node renews a certificate that may be renewed, with the same name
// and lifetime. It refuses one that was forgotten, has expired, was never renewable, or a request for more.
func TestClientCertificateKeptFresh(t *testing.T) {
	story(t)
	c := cluster(t, integration.Options{Keys: map[string]any{"tls.mode": "auto", "tls.leaf-life": "30s", "tls.ca-life": "10m"}})
	for _, n := range c.Nodes {
		n.Keys["control.listen"] = n.Address + ":2391"
	}
	c.Start()
	c.Healthy()
	n1 := c.Nodes[0]
	must1 := func(args ...string) string {
		t.Helper()
		out := n1.Command(args...)
		if out.Code != 0 {
			t.Fatalf("holdfast %v: %+v", args, out)
		}
		return out.Out
	}
	me := &credentials{}
	me.of(clientTLS(t, c, n1, "story"))
	c.TLS = me.config()
	o := c.Observe(21, "--gossip.observer-file", "observer.pem", "--tls.operator-file", "operator.pem", "--client", "pki/kube",
		"--metrics.listen", c.Address(21)+":2390")
	papers := map[string]*x509.Certificate{}
	paper := func(holder string) *x509.Certificate {
		t.Helper()
		file := filepath.Join(o.Dir, holder+".pem")
		pair, err := tls.LoadX509KeyPair(file, file) // the file is complete at every moment
		must(t, err)
		return pair.Leaf
	}
	for _, holder := range []string{"observer", "operator"} {
		must1("tls", holder, "o21", "--to", filepath.Join(o.Dir, holder+".pem"), "--life", "1m", "--renewable")
		papers[holder] = paper(holder)
	}
	dir := filepath.Join(o.Dir, "pki")
	issue := func(name string, args ...string) {
		t.Helper()
		must1(append([]string{"tls", "client", name, "--to", filepath.Join(o.Dir, name), "--life", "1m"}, args...)...)
	}
	must1("tls", "client", "kube", "--to", dir, "--life", "1m", "--renewable")
	issue("cron", "--renewable")
	issue("late", "--renewable")
	issue("plain")
	issue("drop", "--renewable")

	watch := watchPair(t, dir, "kube")
	first := watch.leaf(t)
	o.Start()

	// A caller that may not is refused.
	for _, h := range []struct{ name, method, path, says string }{
		{"plain", "POST", "/tls/client", "may not be renewed by its holder"},
		{"plain", "POST", "/tls/client?name=root&cn=root&life=87600h", "renew the certificate of plain"},
		{"cron", "POST", "/tls/client?name=root&life=87600h", "not time yet"},
		{"cron", "POST", "/drain?force=true", "is named neither by control.readers nor by control.operators"},
		{"cron", "GET", "/status", "is named neither by control.readers nor by control.operators"},
		{"cron", "POST", "/tls/rotate?now=true", "is named neither by control.readers nor by control.operators"},
	} {
		c.Until(patience, h.name+" is refused "+h.path, func() error { // the node asks the store once a second
			if text, err := askAs(o, n1, h.name, h.method, h.path); err == nil || !strings.Contains(err.Error(), h.says) {
				return fmt.Errorf("got %q, %w, want %q", text, err, h.says)
			}
			return nil
		})
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(o.Dir, "observer.pem"), filepath.Join(o.Dir, "observer.pem"))
	must(t, err)
	if _, err := askWith(n1, me.as(&pair), "POST", "/tls/client"); err == nil {
		t.Error("a certificate of the peers' authority is heard")
	}
	must1("tls", "forget", "drop")

	c.Until(90*time.Second, "the certificate is renewed", func() error {
		if now := watch.leaf(t); !now.NotAfter.After(first.NotAfter) {
			return fmt.Errorf("it ends at %s\n%s", now.NotAfter, o.Log())
		}
		return nil
	})
	next := watch.leaf(t)
	if life := next.NotAfter.Sub(next.NotBefore); life > first.NotAfter.Sub(first.NotBefore) {
		t.Errorf("it is valid for %s, the first one was for %s", life, first.NotAfter.Sub(first.NotBefore))
	}
	if out := must1("history"); !strings.Contains(out, "tls/client kube") || !strings.Contains(out, "kube from "+o.Address) {
		all := ""
		for _, n := range c.Nodes {
			all += n.Command("history").Out
		}
		if !strings.Contains(all, "tls/client kube") || !strings.Contains(all, "kube from ") {
			t.Errorf("no history tells of it: %s", all)
		}
	}
	if text, err := askAs(o, n1, "drop", "POST", "/tls/client"); err == nil || !strings.Contains(err.Error(), "was forgotten") {
		t.Errorf("forgotten: got %q, %v", text, err)
	}

	// The authorities rotate. A command looks only once, and still has the new bundle in time.
	must1("tls", "rotate-ca", "--yes")
	c.Until(patience, "the machine has the new bundle", func() error {
		text, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
		if n := strings.Count(string(text), "BEGIN"); err != nil || n != 2 {
			return fmt.Errorf("%d authorities, %v\n%s", n, err, o.Log())
		}
		return nil
	})
	issue("once", "--renewable")
	renew := func(name string) integration.Output {
		return n1.Holdfast("tls", "client", name, "--to", filepath.Join(o.Dir, name), "--renew", "--control.remote.address", n1.Address+":2391")
	}
	if out := renew("once"); out.Code != 0 || !strings.Contains(out.Out, "not renewed yet") {
		t.Errorf("too early: %+v", out)
	}
	must1("tls", "rotate-ca", "--now", "--yes")
	c.Until(90*time.Second, "the certificate is of the new authority", func() error {
		if now := watch.leaf(t); string(now.AuthorityKeyId) == string(next.AuthorityKeyId) {
			return fmt.Errorf("it is of the old one\n%s", o.Log())
		}
		return nil
	})
	c.Until(patience, "a command renews, too", func() error {
		if out := renew("once"); out.Code != 0 || !strings.Contains(out.Out, "renewed") || strings.Contains(out.Out, "not renewed") {
			return fmt.Errorf("%+v", out)
		}
		return nil
	})
	for holder, first := range papers {
		c.Until(90*time.Second, "the "+holder+"'s certificate is renewed, and of the new authority", func() error {
			if now := paper(holder); !now.NotAfter.After(first.NotAfter) || string(now.AuthorityKeyId) == string(first.AuthorityKeyId) {
				return fmt.Errorf("it ends at %s\n%s", now.NotAfter, o.Log())
			}
			return nil
		})
		if out := n1.Holdfast("tls", holder, "o21", "--to", filepath.Join(o.Dir, holder+".pem"), "--renew",
			"--control.remote.address", n1.Address+":2391", "--cluster.name", c.Name); out.Code != 0 || !strings.Contains(out.Out, "not renewed yet") {
			t.Errorf("too early: %+v", out)
		}
	}
	out := n1.Holdfast("tls", "bundle", "--control.remote.address", n1.Address+":2391", "--control.remote.cert-file", filepath.Join(dir, "kube.crt"),
		"--control.remote.key-file", filepath.Join(dir, "kube.key"), "--control.remote.ca-file", filepath.Join(dir, "ca.crt"))
	if want, err := os.ReadFile(filepath.Join(dir, "ca.crt")); err != nil || out.Code != 0 || out.Out != string(want) {
		t.Errorf("tls bundle without a node: %+v, %v", out, err)
	}
	fresh, err := tls.LoadX509KeyPair(filepath.Join(dir, "kube.crt"), filepath.Join(dir, "kube.key"))
	must(t, err)
	c.Until(patience, "etcd knows the client by it", func() error {
		roots := x509.NewCertPool()
		text, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
		roots.AppendCertsFromPEM(text)
		if err != nil {
			return err
		}
		return admits(n1, clientPort, (&credentials{pair: &fresh, roots: roots}).config())
	})
	watch.end(t)

	// A node ignores an expired certificate, and the machine says so.
	c.Until(90*time.Second, "an expired certificate is not heard", func() error {
		if _, err := askAs(o, n1, "late", "GET", "/tls/client"); err == nil || !strings.Contains(err.Error(), "expired certificate") {
			return fmt.Errorf("got %w", err)
		}
		return nil
	})
	other := c.Observe(22, "--gossip.observer-file", "observer.pem", "--client", filepath.Join(o.Dir, "late", "late"))
	must1("tls", "observer", "o22", "--to", filepath.Join(other.Dir, "observer.pem")) // signed by the new authority
	other.Start()
	c.Until(patience, "the machine says that its certificate has expired", func() error {
		if log := other.Log(); !strings.Contains(log, "late.crt expired at") || !strings.Contains(log, "tls client late --to DIR --renewable") {
			return fmt.Errorf("%s", log)
		}
		return nil
	})
}

// askAs sends a request to a node's control.listen, with the client's certificate in the directory of that name.
func askAs(o *integration.Observer, n *integration.Node, name, method, path string) (string, error) {
	in := filepath.Join(o.Dir, name)
	pair, err := tls.LoadX509KeyPair(filepath.Join(in, name+".crt"), filepath.Join(in, name+".key"))
	if err != nil {
		return "", err
	}
	return askWith(n, &tls.Config{Certificates: []tls.Certificate{pair}, InsecureSkipVerify: true}, method, path) //nolint:gosec // a thief would
}

func askWith(n *integration.Node, cfg *tls.Config, method, path string) (string, error) {
	h := http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{TLSClientConfig: cfg, DisableKeepAlives: true}}
	req, err := http.NewRequest(method, "https://"+n.Address+":2391"+path, nil)
	if err != nil {
		return "", err
	}
	resp, err := h.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var told struct{ Error, Certificate string }
	if err := json.NewDecoder(resp.Body).Decode(&told); err != nil {
		return "", fmt.Errorf("%s: %w", resp.Status, err)
	}
	if told.Error != "" {
		return "", fmt.Errorf("%s: %s", resp.Status, told.Error)
	}
	return told.Certificate, nil
}

// pairWatch reads a client's certificate, key and authorities again and again, and checks that they match each time.
type pairWatch struct {
	dir, name string
	stop      chan struct{}
	done      chan error
}

func watchPair(t *testing.T, dir, name string) *pairWatch {
	t.Helper()
	w := &pairWatch{dir, name, make(chan struct{}), make(chan error, 1)}
	go func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-w.stop:
				w.done <- nil
				return
			case <-tick.C:
				if _, err := w.read(); err != nil {
					w.done <- err
					return
				}
			}
		}
	}()
	return w
}

// read returns the certificate. It reads the authorities last, because they are written first.
func (w *pairWatch) read() (*x509.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(filepath.Join(w.dir, w.name+".crt"), filepath.Join(w.dir, w.name+".key"))
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(w.dir, "ca.crt"))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	return pair.Leaf, err
}

func (w *pairWatch) leaf(t *testing.T) *x509.Certificate {
	t.Helper()
	c, err := w.read()
	must(t, err)
	return c
}

func (w *pairWatch) end(t *testing.T) {
	t.Helper()
	close(w.stop)
	if err := <-w.done; err != nil {
		t.Errorf("what is on the disk was not good at every moment: %v", err)
	}
}
