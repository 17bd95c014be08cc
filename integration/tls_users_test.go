package integration_test

import (
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"holdfast/embedded/pki/pkitest"
	"holdfast/integration"
)

const certified = `
enabled: true
users:
- {name: root, password-file: root.pw, roles: [root]}
- {name: kube-apiserver, no-password: true, roles: [root]}
- {name: app, no-password: true, roles: [app]}
- {name: person, password-file: person.pw, roles: [app]}
roles:
- {name: app, permissions: [{access: readwrite, prefix: /app/}]}
`

// A certificate's common name is a user in etcd, and a role in the remote control, each with its own list. Neither
// gives rights to a name that is not in its list.
func TestCertificatesAreUsers(t *testing.T) {
	story(t)
	r := newRules(t)
	c, n := r.c, r.c.Nodes[0]
	r.password("root", "root-planted-1")
	r.password("person", "person-planted-1")
	r.write("auth.yaml", certified)
	given, foreign := filepath.Join(c.Dir, "ca"), filepath.Join(c.Dir, "foreign")
	me := &credentials{}
	roots := authorities(t, n, given)
	authorities(t, n, foreign)
	me.set(signed(t, given, "etcd-clients-ca", "kube-apiserver"), roots)
	c.TLS = me.config()
	c.Set("tls.mode", "ca")
	c.Set("tls.ca-dir", given)
	c.Set("control.readers", []string{"dashboard"})
	c.Set("control.operators", []string{"alice"})
	for _, n := range c.Nodes {
		n.Keys["control.listen"] = n.Address + ":2382"
	}
	c.Start()
	c.Healthy()
	r.settled("the users and roles of the file are there")
	w := c.Write() // as kube-apiserver does
	w.More(20)
	usersOfEtcd(t, c, me, given)
	jsonGateway(t, r, me, given)
	remoteControl(t, r, given, foreign)
	c.Healthy()
	w.Verify()
	r.quiet()
}

// usersOfEtcd tries what certificates with different names may do.
func usersOfEtcd(t *testing.T, c *integration.Cluster, me *credentials, given string) {
	t.Helper()
	ctx := t.Context()
	as := func(pair *tls.Certificate) *clientv3.Client {
		t.Helper()
		client, err := clientv3.New(clientv3.Config{Endpoints: c.Endpoints(), Logger: zap.NewNop(), DialTimeout: 5 * time.Second, TLS: me.as(pair)})
		must(t, err)
		t.Cleanup(func() { client.Close() })
		return client
	}
	_, err := as(signed(t, given, "etcd-clients-ca", "kube-apiserver")).Put(ctx, "/other/a", "theirs")
	must(t, err)
	app := as(signed(t, given, "etcd-clients-ca", "app"))
	if _, err := app.Put(ctx, "/app/a", "ours"); err != nil {
		t.Errorf("within its prefix: %v", err)
	}
	if got, err := app.Get(ctx, "/app/", clientv3.WithPrefix()); err != nil || len(got.Kvs) != 1 {
		t.Errorf("within its prefix: got %v, %v", got, err)
	}
	for what, try := range map[string]func() error{
		"a key":           func() error { _, err := app.Get(ctx, "/other/a"); return err },
		"everything":      func() error { _, err := app.Get(ctx, "", clientv3.WithPrefix()); return err },
		"a write":         func() error { _, err := app.Put(ctx, "/other/a", "1"); return err },
		"a deletion":      func() error { _, err := app.Delete(ctx, "/app", clientv3.WithPrefix()); return err },
		"a new user":      func() error { _, err := app.UserAdd(ctx, "mallory", "1"); return err },
		"a role":          func() error { _, err := app.UserGrantRole(ctx, "app", "root"); return err },
		"auth off":        func() error { _, err := app.AuthDisable(ctx); return err },
		"a transaction":   func() error { _, err := app.Txn(ctx).Then(clientv3.OpGet("/other/a")).Commit(); return err },
		"a new member":    func() error { _, err := app.MemberAdd(ctx, []string{"https://127.0.0.1:1"}); return err },
		"the whole store": func() error { return snapshotOf(app, t) },
	} {
		if err := try(); !errors.Is(err, rpctypes.ErrPermissionDenied) {
			t.Errorf("app tries %s beyond its prefix: got %v", what, err)
		}
	}
	server := filepath.Join(c.Nodes[0].Data, "tls", "server.pem")
	own, err := tls.LoadX509KeyPair(server, server)
	must(t, err)
	for what, pair := range map[string]*tls.Certificate{
		"nobody's name": signed(t, given, "etcd-clients-ca", "mallory"), "no name": signed(t, given, "etcd-clients-ca", ""), "the server's": &own,
	} {
		if _, err := as(pair).Get(ctx, "/app/a"); err == nil {
			t.Errorf("a certificate with %s reads", what)
		}
	}
}

func snapshotOf(client *clientv3.Client, t *testing.T) error {
	from, err := client.Snapshot(t.Context())
	if err != nil {
		return err
	}
	defer from.Close()
	_, err = io.Copy(io.Discard, from)
	return err
}

// jsonGateway tries etcd's JSON API, which talks to etcd with the server's certificate for every client. There a
// certificate is no user, but a token is.
func jsonGateway(t *testing.T, r *rules, me *credentials, given string) {
	t.Helper()
	post := func(cn, path, token string, body any) (int, string) {
		t.Helper()
		text, err := json.Marshal(body)
		must(t, err)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.c.Nodes[0].ClientURL()+path, bytes.NewReader(text))
		must(t, err)
		if token != "" {
			req.Header.Set("Authorization", token)
		}
		client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: me.as(signed(t, given, "etcd-clients-ca", cn)), DisableKeepAlives: true}}
		resp, err := client.Do(req)
		must(t, err)
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		must(t, err)

		fmt.Fprintln(&r.said, string(answer))
		return resp.StatusCode, string(answer)
	}
	key := func(k string) map[string]string {
		return map[string]string{"key": base64.StdEncoding.EncodeToString([]byte(k))}
	}
	for _, cn := range []string{"kube-apiserver", "app", "root", "mallory", ""} {
		if code, answer := post(cn, "/v3/kv/range", "", key("/app/a")); code == http.StatusOK || strings.Contains(answer, "kvs") {
			t.Errorf("the gateway reads for a certificate of %q: %d %s", cn, code, answer)
		}
		if code, answer := post(cn, "/v3/auth/disable", "", struct{}{}); code == http.StatusOK {
			t.Errorf("the gateway disables auth for a certificate of %q: %s", cn, answer)
		}
	}
	login := func(password string) (int, string) {
		code, answer := post("", "/v3/auth/authenticate", "", map[string]string{"name": "person", "password": password})
		var a struct{ Token string }
		if err := json.Unmarshal([]byte(answer), &a); err != nil {
			t.Fatalf("%d %q: %v", code, answer, err)
		}
		return code, a.Token
	}
	if code, token := login("wrong"); code == http.StatusOK || token != "" {
		t.Errorf("a wrong password: %d %q", code, token)
	}
	code, token := login("person-planted-1")
	if code != http.StatusOK || token == "" {
		t.Fatalf("the right password: %d", code)
	}
	if code, answer := post("", "/v3/kv/range", token, key("/app/a")); code != http.StatusOK || !strings.Contains(answer, "kvs") {
		t.Errorf("a token within its prefix: %d %s", code, answer)
	}
	if code, answer := post("kube-apiserver", "/v3/kv/range", token, key("/other/a")); code == http.StatusOK {
		t.Errorf("a token beyond its prefix, with root's certificate: %s", answer)
	}
}

// remoteControl talks to a node that does not lead, as from another machine.
func remoteControl(t *testing.T, r *rules, given, foreign string) {
	t.Helper()
	n := r.c.Nodes[1]
	if r.c.Leader() == n {
		n = r.c.Nodes[2]
	}
	as := func(authority, cn string, args ...string) integration.Output {
		t.Helper()
		dir := filepath.Join(r.c.Dir, "remote-"+filepath.Base(authority)+"-"+cn)
		if _, err := os.Stat(dir); err != nil {
			must(t, os.Mkdir(dir, 0o700))
			writePair(t, dir, signed(t, authority, "etcd-clients-ca", cn))
		}
		o := r.c.Nodes[0].Holdfast(append(args, "--control.remote.address", n.Address+":2382", "--control.remote.cert-file", filepath.Join(dir, "pair.pem"),
			"--control.remote.key-file", filepath.Join(dir, "pair.pem"), "--control.remote.ca-file", filepath.Join(given, "etcd-clients-ca.crt"))...)
		fmt.Fprintln(&r.said, args, o.Out, o.Err)
		return o
	}
	for _, cn := range []string{"dashboard", "alice"} {
		if o := as(given, cn, "status"); o.Code != 0 || !strings.Contains(o.Out, n.Name) {
			t.Errorf("status as %s: %+v", cn, o)
		}
		if o := as(given, cn, "drain", "--dry-run"); o.Code != 0 {
			t.Errorf("a dry drain as %s: %+v", cn, o)
		}
	}
	for _, who := range []struct{ authority, cn, says string }{
		{given, "dashboard", "may look, but not change"}, {given, "kube-apiserver", "named neither by control.readers"}, {foreign, "alice", "certificate"},
	} {
		if o := as(who.authority, who.cn, "drain"); o.Code == 0 || !strings.Contains(o.Err, who.says) {
			t.Errorf("drain as %s of %s: %+v", who.cn, filepath.Base(who.authority), o)
		}
	}
	if o := as(given, "kube-apiserver", "status"); o.Code == 0 {
		t.Errorf("status as nobody: %+v", o)
	}
	r.c.Healthy() // no node was drained
	if o := as(given, "alice", "drain"); o.Code != 0 {
		t.Fatalf("drain as alice: %+v", o)
	}
	if err := r.c.Fit(); err == nil {
		t.Error("the drained node's cluster is as healthy as ever")
	}
	if o := as(given, "alice", "undrain"); o.Code != 0 {
		t.Fatalf("undrain as alice: %+v", o)
	}
	r.c.Healthy()
	if o := as(given, "dashboard", "history"); o.Code != 0 || !strings.Contains(o.Out, "alice from") {
		t.Errorf("history does not say who has drained: %+v", o)
	}
}

func writePair(t testing.TB, dir string, pair *tls.Certificate) {
	t.Helper()
	cert, key := pkitest.Encode(t, pair)
	must(t, os.WriteFile(filepath.Join(dir, "pair.pem"), append(cert, key...), 0o600))
}
