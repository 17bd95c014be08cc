package cmd

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/embedded/health"
	"holdfast/embedded/pki/authorities"
	"holdfast/snapshot"
)

// What `tls client` issues is known to every node, and told of before it ends, unless there is a later one or it was
// forgotten.
func TestIssuedCertificatesAreTracked(t *testing.T) {
	config, cfg := tlsCA(t)
	issue := func(name, life string) string {
		t.Helper()
		out, err := execute("tls", "client", name, "--to", t.TempDir(), "--life", life, "--config", config)
		if err != nil {
			t.Fatal(err, out)
		}
		return out
	}
	if out := issue("early", "1h"); !strings.Contains(out, "is not tracked") {
		t.Errorf("without a store: %s", out)
	}
	must(t, os.MkdirAll(cfg.Snapshot.Store, 0o700))
	for _, c := range [][2]string{{"kube", "90d"}, {"kube", "1h"}, {"cron", "1h"}} {
		if out := issue(c[0], c[1]); strings.Contains(out, "warning") {
			t.Error(out)
		}
	}
	node := &authorities.Issued{Store: snapshot.NewDir(cfg.Snapshot.Store), Cluster: cfg.Cluster.Name}
	all, err := node.Look(t.Context())
	if err != nil || len(all) != 2 || all[0].Name != "cron" || all[1].Name != "kube" ||
		time.Until(all[1].NotAfter) < 89*24*time.Hour {
		t.Fatalf("got %+v, %v", all, err)
	}
	if r := all[1]; r.Role != "client" || r.Serial == "" || len(r.Fingerprint) != 16 || len(r.Authority) != 16 {
		t.Errorf("got %+v", r)
	}
	for name, tt := range map[string]struct {
		after time.Duration
		want  string // who is told of
	}{
		"fresh":                    {0, ""},
		"cron is about to end":     {55 * time.Minute, "cron expires"},
		"cron has ended":           {2 * time.Hour, "cron expired"},
		"cron is mourned no more":  {8 * 24 * time.Hour, ""},
		"kube is about to end":     {82 * 24 * time.Hour, "kube expires"},
		"kube has ended for weeks": {120 * 24 * time.Hour, ""},
	} {
		got := strings.Join(health.Texts(health.JudgeIssued(node.Last(), time.Now().Add(tt.after))), "\n")
		if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: got %q", name, got)
		}
	}
	out, err := execute("tls", "show", "--config", config)
	if err != nil || !strings.Contains(out, "kube") || !strings.Contains(out, "cron") {
		t.Errorf("tls show: %v, %s", err, out)
	}

	forget := []string{"tls", "forget", "cron", "--config", config}
	if out, err := execute(append(forget, "--dry-run")...); err != nil || !strings.Contains(out, "nothing was changed") {
		t.Errorf("forget --dry-run: %v, %s", err, out)
	}
	if out, err := execute(forget...); err != nil {
		t.Fatal(err, out)
	}
	if out, err := execute(forget...); err == nil {
		t.Errorf("forget again: %s", out)
	}
	if all, err := node.Look(t.Context()); err != nil || len(all) != 1 || all[0].Name != "kube" {
		t.Errorf("got %+v, %v", all, err)
	}
	damaged := filepath.Join(cfg.Snapshot.Store, "holdfast", cfg.Cluster.Name, "client-x.json")
	must(t, os.WriteFile(damaged, []byte(`{"version": 1, "cluster": "other", "name": "x"}`), 0o600))
	if all, err := node.Look(t.Context()); err == nil || len(all) != 1 {
		t.Errorf("a damaged record: got %+v, %v", all, err)
	}
	out, err = execute("tls", "show", "--config", config)
	if err != nil || !strings.Contains(out, "client-x.json") || !strings.Contains(out, "kube") {
		t.Errorf("tls show with a damaged record: %v, %s", err, out)
	}
	// Anyone who can write to the store could otherwise keep a stolen certificate renewable.
	if out, err := execute("tls", "forget", "kube", "--config", config); err == nil ||
		!strings.Contains(err.Error(), "some certificates of kube may not be forgotten") ||
		!strings.Contains(err.Error(), "client-x.json") {
		t.Errorf("forget beside a damaged record: %v, %s", err, out)
	}
	if all, _ := node.Look(t.Context()); len(all) != 0 {
		t.Errorf("kube was not forgotten: got %+v", all)
	}
}

// A certificate is renewed where it is, for the key that is there, once it is time or its authority was replaced.
func TestClientCertificateIsRenewed(t *testing.T) {
	config, cfg := tlsCA(t)
	dir := t.TempDir()
	must(t, os.MkdirAll(cfg.Snapshot.Store, 0o700))
	file := func(name string) string { return filepath.Join(dir, name) }
	client := func(args ...string) (string, error) {
		return execute(append([]string{"tls", "client", "kube", "--to", dir, "--config", config}, args...)...)
	}
	if out, err := client("--renew"); err == nil || !strings.Contains(err.Error(), "an operator issues the first one, on a node, with `holdfast tls client kube") {
		t.Errorf("without one: got %v, %s", err, out)
	}
	if out, err := client("--life", "1h"); err != nil {
		t.Fatal(err, out)
	}
	first, key := read(t, file("kube.crt")), read(t, file("kube.key"))
	if out, err := client("--renew"); err != nil || !strings.Contains(out, "not renewed yet") {
		t.Errorf("too early: got %v, %s", err, out)
	}
	if read(t, file("kube.crt")) != first {
		t.Error("renewed before it was time")
	}

	other := filepath.Join(t.TempDir(), "others") // as after a rotation
	if out, err := execute("tls", "init", other); err != nil {
		t.Fatal(err, out)
	}
	for _, name := range []string{"etcd-clients-ca.crt", "etcd-clients-ca.key"} {
		must(t, os.WriteFile(filepath.Join(cfg.TLS.CADir, name), []byte(read(t, filepath.Join(other, name))), 0o600))
	}
	if out, err := client("--renew", "--dry-run"); err != nil || !strings.Contains(out, "it would be renewed") {
		t.Errorf("dry run: got %v, %s", err, out)
	}
	if read(t, file("kube.crt")) != first {
		t.Error("a dry run has renewed it")
	}
	if out, err := client("--renew", "--life", "90d"); err != nil || !strings.Contains(out, "renewed") {
		t.Errorf("another authority: got %v, %s", err, out)
	}
	if read(t, file("kube.crt")) == first || read(t, file("kube.key")) != key {
		t.Error("want another certificate of the same key")
	}
	if _, err := tls.LoadX509KeyPair(file("kube.crt"), file("kube.key")); err != nil {
		t.Error(err)
	}
	if read(t, file("ca.crt")) != read(t, filepath.Join(other, "etcd-clients-ca.crt")) {
		t.Error("the authorities are not the present ones")
	}
	all, err := (&authorities.Issued{Store: snapshot.NewDir(cfg.Snapshot.Store), Cluster: cfg.Cluster.Name}).Look(t.Context())
	if err != nil || len(all) != 1 || time.Until(all[0].NotAfter) < 89*24*time.Hour {
		t.Errorf("tracked: got %+v, %v", all, err)
	}
	must(t, os.Rename(file("kube.crt"), file("cron.crt")))
	must(t, os.Rename(file("kube.key"), file("cron.key")))
	if out, err := execute("tls", "client", "cron", "--to", dir, "--renew", "--config", config); err == nil ||
		!strings.Contains(err.Error(), `a certificate of "kube", not of cron`) {
		t.Errorf("of another: got %v, %s", err, out)
	}
}

// An observer's certificate is told of like a client's, and one of the same name is another.
func TestObserverCertificatesAreTracked(t *testing.T) {
	config, cfg := tlsCA(t)
	dir := t.TempDir()
	must(t, os.MkdirAll(cfg.Snapshot.Store, 0o700))
	for _, args := range [][]string{{"client", "etl", "--to", dir}, {"observer", "etl", "--life", "90d", "--to", filepath.Join(dir, "observer.pem")}} {
		if out, err := execute(append([]string{"tls", "--config", config}, args...)...); err != nil || strings.Contains(out, "warning") {
			t.Fatalf("%v: %v, %s", args, err, out)
		}
	}
	node := &authorities.Issued{Store: snapshot.NewDir(cfg.Snapshot.Store), Cluster: cfg.Cluster.Name}
	all, err := node.Look(t.Context())
	if err != nil || len(all) != 2 || all[0].Of() != "observer etl" || all[1].Of() != "client etl" {
		t.Fatalf("got %+v, %v", all, err)
	}
	found := health.JudgeIssued(node.Last(), time.Now().Add(85*24*time.Hour))
	if len(found) != 1 || !strings.Contains(found[0].Text, "the observer certificate of etl expires") || !strings.Contains(found[0].Do, "`holdfast tls observer etl --to FILE`") {
		t.Errorf("findings: %+v", found)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	return string(text)
}
