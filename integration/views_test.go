package integration_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"holdfast/embedded/health"
	"holdfast/integration"
)

// views waits until everything that reports the cluster's health agrees on the verdict.
func views(t *testing.T, c *integration.Cluster, want health.Verdict) {
	t.Helper()
	agree(t, c, fmt.Sprintf("all views agree on %s", want), func(s health.ClusterStatus) error {
		if s.Health != want {
			return fmt.Errorf("it is %s: %s", s.Health, s.Reasons())
		}
		return nil
	})
}

// agree waits until everything that reports the cluster's health says the same: `status` as text, as JSON and by its
// exit code, `doctor` and its exit code, and on each running node /readyz, /livez and the series holdfast_finding. The
// status must be one that is wanted.
func agree(t *testing.T, c *integration.Cluster, what string, wanted func(health.ClusterStatus) error) {
	t.Helper()
	c.Until(patience, what, func() error {
		n := c.Running()[0]
		before, err := n.Status()
		if err != nil {
			return err
		}
		if err := wanted(before); err != nil {
			return fmt.Errorf("%s: %w", n.Name, err)
		}
		text := n.Command("status")
		disagree := disagreement(t, c, n, before, text)
		after, err := n.Status()
		if err != nil || !slices.Equal(codes(before.Findings), codes(after.Findings)) {
			return errors.Join(disagree, err, errors.New("it changes"))
		}
		for _, f := range before.Findings { // some contain figures
			stays := slices.ContainsFunc(after.Findings, func(g health.Finding) bool { return f.String() == g.String() })
			if stays && f.Severity != health.Info && !strings.Contains(text.Out, f.String()) {
				disagree = errors.Join(disagree, fmt.Errorf("status does not say %q: %s", f, text.Out))
			}
		}
		return disagree
	})
}

// disagreement returns an error that names every view that differs from the status.
func disagreement(t *testing.T, c *integration.Cluster, n *integration.Node, s health.ClusterStatus, text integration.Output) error {
	t.Helper()
	var all []error
	differ := func(format string, args ...any) { all = append(all, fmt.Errorf(format, args...)) }
	if want := map[health.Verdict]int{health.Healthy: 0, health.Degraded: 1}; text.Code != want[s.Health] && (s.Health == health.Healthy || s.Health == health.Degraded || text.Code != 2) {
		differ("status exits with %d: %s", text.Code, text.Out)
	}
	if !strings.Contains(text.Out, strings.ToUpper(string(s.Health))) {
		differ("status does not say %s: %s", s.Health, text.Out)
	}
	found := map[health.Code]bool{}
	for _, f := range s.Findings {
		found[f.Code] = true
	}

	var report struct{ Findings []health.Finding }
	doctor := n.Command("doctor", "-o", "json")
	if err := json.Unmarshal([]byte(doctor.Out), &report); err != nil {
		return fmt.Errorf("%w: %+v", err, doctor)
	}
	if want := map[health.Severity]int{health.Warning: 1, health.Degrading: 2, health.Critical: 2}[health.Worst(report.Findings)]; doctor.Code != want {
		differ("doctor exits with %d, want %d: %s", doctor.Code, want, doctor.Out)
	}
	told := codes(report.Findings)
	for _, code := range codes(s.Findings) {
		if !slices.Contains(told, code) {
			differ("doctor does not tell of %s: %s", code, told)
		}
	}

	local := map[health.Code]bool{}
	for _, n := range c.Running() {
		i := slices.IndexFunc(s.Nodes, func(m health.NodeStatus) bool { return m.Node == n.Name })
		if i < 0 {
			differ("status knows nothing of %s", n.Name)
			continue
		}
		code, ready := page(t, n, "/readyz?verbose")
		e := s.Nodes[i].Etcd
		if serves := e != nil && e.HasLead && e.Confirmed && !e.Learner; serves != (code == http.StatusOK) && !found[health.AlarmCorrupt] {
			differ("%s serves: %v, and /readyz answers %d: %s", n.Name, serves, code, ready)
		}
		if code, live := page(t, n, "/livez"); code != http.StatusOK {
			differ("%s: /livez answers %d: %s", n.Name, code, live)
		}
		for code := range exported(t, n) {
			local[code] = true
			if !strings.Contains(ready, "]"+string(code)+" ") {
				differ("%s has a series of %s, and /readyz does not tell: %s", n.Name, code, ready)
			}
		}
	}
	for code := range local {
		if !found[code] {
			differ("there is a series of %s, and status does not tell", code)
		}
	}
	runs := slices.ContainsFunc(s.Nodes, func(n health.NodeStatus) bool { return n.Reached && n.Etcd != nil })
	for code := range found {
		if code == health.QuorumLost && !runs { // only a running member can miss its leader
			continue
		}
		if health.KindOf(code).Local() && !local[code] {
			differ("status tells of %s, and no node has a series of it", code)
		}
	}
	return errors.Join(all...)
}

// codes are the codes of the findings, without the texts, which contain times.
func codes(all []health.Finding) (codes []string) {
	for _, f := range all {
		codes = append(codes, fmt.Sprintf("%s %s %s", f.Severity, f.Code, f.Subject))
	}
	slices.Sort(codes)
	return slices.Compact(codes)
}

// page returns what the node answers to a monitoring system.
func page(t *testing.T, n *integration.Node, path string) (code int, body string) {
	t.Helper()
	client := http.Client{Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	resp, err := client.Get("http://" + net.JoinHostPort(n.Address, "2390") + path)
	must(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must(t, err)
	return resp.StatusCode, string(text)
}

// series returns the values of a node's metrics whose name begins with prefix, by name and labels.
func series(t *testing.T, n *integration.Node, prefix string) map[string]float64 {
	t.Helper()
	_, text := page(t, n, "/metrics")
	values := map[string]float64{}
	for line := range strings.Lines(text) {
		if at := strings.LastIndex(line, " "); at > 0 && strings.HasPrefix(line, prefix) {
			value, err := strconv.ParseFloat(strings.TrimSpace(line[at:]), 64)
			must(t, err)
			values[line[:at]] = value
		}
	}
	return values
}

// exported are the findings whose series is not 0.
func exported(t *testing.T, n *integration.Node) map[health.Code]bool {
	t.Helper()
	found := map[health.Code]bool{}
	for name, value := range series(t, n, "holdfast_finding{") {
		for _, k := range health.Kinds {
			if value > 0 && strings.Contains(name, fmt.Sprintf("{code=%q,", k.Code)) {
				found[k.Code] = true
			}
		}
	}
	return found
}
