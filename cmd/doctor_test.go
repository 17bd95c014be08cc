package cmd

import (
	"bufio"
	"bytes"
	"strings"
	"testing"

	"holdfast/cmd/show"
	"holdfast/embedded/health"
)

func TestDoctorReport(t *testing.T) {
	r := health.Report{Cluster: "main", Well: []string{"nodes", "disks"}, Findings: []health.Finding{
		{Code: "alarm-x", Severity: health.Critical, Text: "Full.", Do: "Delete.", Fix: &health.Repair{ID: "delete x at revision 7"}},
		{Code: "clock-x", Subject: "n2", Severity: health.Warning, Text: "Too slow.", Do: "Again."},
		{Code: "disk-x", Severity: health.Info, Text: "Young."},
	}}
	want := "[-] alarm-x: Full.\n      Delete.\n[!] clock-x: n2: Too slow.\n      Again.\n[i] disk-x: Young.\n[+] nothing was found about: nodes, disks\n\n" +
		"cluster main: 1 bad, 1 to look at, 1 to know\n`holdfast doctor --fix` would: delete x at revision 7\n"
	if got := show.Doctor(r); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for code, findings := range [][]health.Finding{r.Findings[2:], r.Findings[1:], r.Findings} {
		if got := worst(findings); int(got) != code {
			t.Errorf("exit code %d, want %d", got, code)
		}
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
