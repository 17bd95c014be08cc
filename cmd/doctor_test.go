package cmd

import (
	"bufio"
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"holdfast/cmd/show"
	"holdfast/embedded/health"
	"holdfast/snapshot"
)

func TestDoctorReport(t *testing.T) {
	r := health.Report{Cluster: "main", Well: []string{"nodes", "disks"}, Findings: []health.Finding{
		{Code: "alarm-x", Severity: health.Critical, Text: "Full.", Do: "Delete.", Fix: &health.Repair{ID: "delete x at revision 7"}},
		{Code: "clock-x", Subject: "n2", Severity: health.Warning, Text: "Too slow.", Do: "Again."},
		{Code: "disk-x", Severity: health.Info, Text: "Young."},
	}}
	var b bytes.Buffer
	if err := show.Doctor(&b, r); err != nil {
		t.Fatal(err)
	}
	want := "[-] alarm-x: Full.\n      Delete.\n[!] clock-x: n2: Too slow.\n      Again.\n[i] disk-x: Young.\n[+] nothing was found about: nodes, disks\n\n" +
		"cluster main: 1 bad, 1 to look at, 1 to know\n`holdfast doctor --fix` would: delete x at revision 7\n"
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
	for code, findings := range [][]health.Finding{r.Findings[2:], r.Findings[1:], r.Findings} {
		if got := worst(findings); got != code {
			t.Errorf("exit code %d, want %d", got, code)
		}
	}
}

// What a listing of the store comes to.
func TestHoldings(t *testing.T) {
	now := time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC)
	good := snapshot.Backup{Meta: snapshot.Meta{Name: "b1", Created: now, Verified: now}}
	day := 24 * time.Hour
	for name, tc := range map[string]struct {
		all  []snapshot.Backup
		want health.Holdings
	}{
		"one":        {[]snapshot.Backup{good}, health.Holdings{Good: 1}},
		"none":       {nil, health.Holdings{}},
		"foreign":    {[]snapshot.Backup{good, {Foreign: true}}, health.Holdings{Good: 1, Foreign: 1}},
		"unverified": {[]snapshot.Backup{good, {Meta: snapshot.Meta{Name: "b2"}}}, health.Holdings{Good: 1, Broken: health.Sample{Count: 1, Example: "b2: not verified"}}},
		"left behind": {[]snapshot.Backup{good, {Unfinished: true, Problem: "begun only", Meta: snapshot.Meta{Created: now.Add(-2 * day)}}},
			health.Holdings{Good: 1, Left: 1}},
		"being saved": {[]snapshot.Backup{good, {Unfinished: true, Problem: "begun only", Meta: snapshot.Meta{Created: now}}}, health.Holdings{Good: 1}},
		"unknown proof": {[]snapshot.Backup{{Meta: good.Meta, Proofs: []snapshot.Proof{{Kind: "verify", Unknown: "a newer holdfast wrote it"}}}},
			health.Holdings{Good: 1, Unproven: health.Sample{Count: 1, Example: "b1: a newer holdfast wrote it"}}},
	} {
		if got := holdings(tc.all, "", now); !reflect.DeepEqual(*got, tc.want) {
			t.Errorf("%s: got %+v, want %+v", name, *got, tc.want)
		}
	}
	bad := good
	bad.Failed = &snapshot.Proof{Kind: "drill", By: "n2", Error: "HashKV: want 1, got 2"}
	if got := holdings([]snapshot.Backup{bad}, "", now); got.Good != 0 || got.Broken.Count != 1 || len(got.Skipped) == 0 {
		t.Errorf("bad by a drill: got %+v", got)
	}
	if got := holdings(nil, "access denied", now); got.Err != "access denied" {
		t.Errorf("unread: got %+v", got)
	}
}

func TestDiskTimes(t *testing.T) {
	reg := prometheus.NewRegistry()
	if fsync, commit := diskTimes(reg); fsync != nil || commit != nil {
		t.Errorf("of nothing: %v %v", fsync, commit)
	}
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "etcd_disk_wal_fsync_duration_seconds", Buckets: []float64{0.001, 0.002, 0.004}})
	reg.MustRegister(h)
	for range 98 {
		h.Observe(0.0005)
	}
	h.Observe(0.003)
	h.Observe(0.003)
	if fsync, _ := diskTimes(reg); fsync == nil || *fsync != (health.Quantile{Seconds: 0.003, Count: 100}) {
		t.Errorf("got %+v, want the middle of the bucket from 2 to 4 ms", fsync)
	}
	for range 100 {
		h.Observe(1)
	}
	if fsync, _ := diskTimes(reg); fsync == nil || *fsync != (health.Quantile{Seconds: 0.004, Count: 200}) {
		t.Errorf("got %+v, want the highest bound", fsync)
	}
}

func TestAskYes(t *testing.T) {
	lines := bufio.NewReader(strings.NewReader("y\nno\n Yes \n\nyes"))
	var out bytes.Buffer
	for i, want := range []bool{true, false, true, false, true, false} { // the last one is the end of the input
		if got, err := askYes(t.Context(), &out, lines, "sure?"); err != nil || got != want {
			t.Errorf("answer %d: got %t, %v, want %t", i, got, err, want)
		}
	}
	if !strings.HasPrefix(out.String(), "sure? [y/N] ") {
		t.Errorf("asked %q", out.String())
	}
}
