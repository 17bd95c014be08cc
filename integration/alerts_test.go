package integration_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"holdfast/integration"
)

const ruleDir = "../deploy/prometheus"

// Each alert fires in its situation, and in no other.
func TestAlertRules(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("promtool"); err != nil {
		t.Skip("promtool is missing (.ci/deps installs it)")
	}
	must(t, promtool("check", "rules", files(t)...))
	tests, err := filepath.Glob(filepath.Join(ruleDir, "test*.yml"))
	must(t, err)
	must(t, promtool("test", "rules", tests...))
	var text strings.Builder
	for _, file := range tests {
		one, err := os.ReadFile(file)
		must(t, err)
		text.Write(one)
	}
	for _, file := range files(t) {
		var all struct {
			Groups []struct{ Rules []struct{ Alert string } }
		}
		rule, err := os.ReadFile(file)
		must(t, err)
		must(t, yaml.Unmarshal(rule, &all))
		for _, g := range all.Groups {
			for _, r := range g.Rules {
				if !strings.Contains(text.String(), fmt.Sprintf("{labels: '{alertname=%q, job", r.Alert)) {
					t.Errorf("%s: no test has %s fire", file, r.Alert)
				}
			}
		}
	}
}

// files are the files with the alert rules.
func files(t *testing.T) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(ruleDir, "holdfast-*.yml"))
	must(t, err)
	if len(all) == 0 {
		t.Fatal("there are no rules in " + ruleDir)
	}
	return all
}

func promtool(command, what string, files ...string) error {
	out, err := exec.Command("promtool", append([]string{command, what}, files...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("promtool %s %s: %w\n%s", command, what, err, out)
	}
	return nil
}

// alerts checks which alerts fire if the running nodes stay as they are for two hours.
func alerts(t *testing.T, c *integration.Cluster, want ...string) {
	t.Helper()
	if _, err := exec.LookPath("promtool"); err != nil {
		t.Log("not asked which alerts fire: promtool is missing (.ci/deps installs it)")
		return
	}
	var absolute []string
	for _, file := range files(t) {
		path, err := filepath.Abs(file)
		must(t, err)
		absolute = append(absolute, path)
	}
	type labelled struct {
		Labels string `json:"labels"`
		Value  int    `json:"value"`
	}
	fire := []labelled{}
	for _, name := range want {
		fire = append(fire, labelled{fmt.Sprintf("{alertname=%q}", name), 1})
	}
	file := filepath.Join(t.TempDir(), "alerts.json") // JSON is YAML
	c.Until(patience, "these alerts fire, and no others", func() error {
		text, err := json.Marshal(map[string]any{
			"rule_files": absolute, "evaluation_interval": "5m",
			"tests": []any{map[string]any{
				"interval":     "1m",
				"input_series": shown(t, c),
				"promql_expr_test": []any{map[string]any{
					"expr": `group by (alertname) (ALERTS{alertstate="firing"})`, "eval_time": "2h", "exp_samples": fire,
				}},
			}},
		})
		must(t, err)
		must(t, os.WriteFile(file, text, 0o600))
		return promtool("test", "rules", file)
	})
}

type shownSeries struct {
	Series string `json:"series"`
	Values string `json:"values"`
}

// shown returns the current series of the running nodes, as constant for two hours.
func shown(t *testing.T, c *integration.Cluster) (input []shownSeries) {
	t.Helper()
	for _, n := range c.Running() {
		for name, value := range series(t, n, "holdfast_") {
			name, labels, _ := strings.Cut(name, "{")
			name += fmt.Sprintf("{job=\"etcd\",instance=%q,%s", n.Name, labels)
			input = append(input, shownSeries{strings.TrimSuffix(strings.TrimSuffix(name, "}"), ",") + "}", fmt.Sprintf("%v+0x120", value)})
		}
	}
	return input
}
