package cmd

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"holdfast/cmd/config"
	"holdfast/embedded/health"
	"holdfast/embedded/pki/authorities"
	"holdfast/metrics"
	"holdfast/snapshot"
)

// What the series tell of a rotation.
func TestRotationSample(t *testing.T) {
	began := time.Now()
	open := &health.RotationStatus{Phase: health.RotationRetiring, Began: began, OldClients: make([]health.ClientCertificate, 2), Others: 3}
	for name, tt := range map[string]struct {
		known bool
		r     *health.RotationStatus
		want  metrics.Rotation
	}{
		"nothing is known": {},
		"none is open":     {known: true, want: metrics.Rotation{Phase: "settled"}},
		"one is open":      {true, open, metrics.Rotation{Phase: "retiring", Began: began, OldClients: 5}},
	} {
		if got := rotationSample(tt.known, tt.r); got != tt.want {
			t.Errorf("%s: got %+v, want %+v", name, got, tt.want)
		}
	}
}

// Without a node that answers, `tls show` says what the store knows of a rotation, and that it knows no more.
func TestRotationWithoutANode(t *testing.T) {
	dir := t.TempDir()
	configPath := filepath.Join(dir, "holdfast.yaml")
	text := "cluster: {name: main}\nnode: {data-dir: " + dir + "/data, name: n1}\ntls: {mode: auto}\n" +
		"snapshot: {store: " + dir + "/store}\n"
	if err := os.WriteFile(configPath, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "store"), 0o700); err != nil {
		t.Fatal(err)
	}
	show := func(format string) string {
		t.Helper()
		out, err := execute("tls", "show", "--config", configPath, "-o", format)
		if err != nil {
			t.Fatal(err, out)
		}
		return out
	}
	if out := show("table"); !strings.Contains(out, "whether a rotation is open is not known") {
		t.Errorf("before the node has run: %s", out)
	}
	l, err := config.Load(configPath, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	a := authorities.New(editionOptions(l.Config), snapshot.NewDir(filepath.Join(dir, "store")), zap.NewNop())
	if _, err := a.Authorities(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Advance(t.Context(), authorities.View{}, authorities.Order{Begin: true, By: "root"}, false); err != nil {
		t.Fatal(err)
	}
	table := show("table")
	for _, part := range []string{"CA ROTATION introduced", "root asked for it", "not known here"} {
		if !strings.Contains(table, part) {
			t.Errorf("want %q in %s", part, table)
		}
	}
	var shown shownTLS
	err = json.Unmarshal([]byte(show("json")), &shown)
	if err != nil || shown.Rotation == nil || shown.Rotation.Phase != "introduced" || len(shown.Certificates) == 0 {
		t.Errorf("json: %v, %+v", err, shown)
	}
}
