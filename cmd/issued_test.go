package cmd

import (
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
	if err := os.MkdirAll(cfg.Snapshot.Store, 0o700); err != nil {
		t.Fatal(err)
	}
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
	if err := os.WriteFile(damaged, []byte(`{"version": 1, "cluster": "other", "name": "x"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if all, err := node.Look(t.Context()); err == nil || len(all) != 1 {
		t.Errorf("a damaged record: got %+v, %v", all, err)
	}
	out, err = execute("tls", "show", "--config", config)
	if err != nil || !strings.Contains(out, "client-x.json") || !strings.Contains(out, "kube") {
		t.Errorf("tls show with a damaged record: %v, %s", err, out)
	}
}
