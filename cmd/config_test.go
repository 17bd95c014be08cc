package cmd

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"holdfast/cmd/config"
)

// config runs `holdfast config args...` with an environment of its own.
func configCommand(t *testing.T, args ...string) (out string, err error) {
	t.Helper()
	t.Setenv("HOLDFAST_NODE_NAME", "n1")
	t.Setenv("HOLDFAST_CONFIG", "")
	c := newConfigCommand()
	c.SilenceUsage, c.SilenceErrors = true, true
	var b bytes.Buffer
	c.SetOut(&b)
	c.SetErr(&b)
	c.SetArgs(args)
	err = c.ExecuteContext(t.Context())
	return b.String(), err
}

func TestConfigShow(t *testing.T) {
	file := configFile(t, "log: {level: warn}\ncluster: {slots: [a, '1', 'no']}\n")
	args := []string{"show", "-c", file, "--stop.wait=90s", "--etcd.feature-gates=LeaseCheckpoint=true", "-o"}

	out, err := configCommand(t, append(args, "table")...)
	must(t, err)
	rows := map[string]string{}
	for line := range strings.Lines(out) {
		if fields := strings.Fields(line); len(fields) > 1 {
			rows[fields[0]] = strings.Join(fields[1:], " ")
		}
	}
	for key, want := range map[string]string{
		"log.level": "warn file " + file + ":1", "stop.wait": "1m30s flag --stop.wait", "node.name": "n1 env HOLDFAST_NODE_NAME",
		"gossip.listen": "127.0.0.1:7946 derived from node.address", "log.format": "console default",
	} {
		if rows[key] != want {
			t.Errorf("table: %s: got %q, want %q", key, rows[key], want)
		}
	}

	// What is shown as YAML must load to the same configuration.
	out, err = configCommand(t, append(args, "yaml")...)
	must(t, err)
	if !strings.Contains(out, "level: warn # file "+file+":1\n") {
		t.Errorf("yaml: no origins in\n%s", out)
	}
	want, err := config.Load(file, configFlags(t, "--stop.wait=90s", "--etcd.feature-gates=LeaseCheckpoint=true", "--node.name=n1"), nil)
	must(t, err)
	got, err := config.Load(configFile(t, out), nil, nil)
	if err != nil {
		t.Fatalf("yaml: %v\n%s", err, out)
	}
	if !reflect.DeepEqual(got.Config, want.Config) {
		t.Errorf("yaml: loads to\n%+v, want\n%+v", got.Config, want.Config)
	}

	out, err = configCommand(t, append(args, "json")...)
	must(t, err)
	var list []struct {
		Key    string
		Value  any
		Origin string
	}
	must(t, json.Unmarshal([]byte(out), &list))
	if len(list) != len(config.Keys()) {
		t.Errorf("json: got %d keys, want %d", len(list), len(config.Keys()))
	}
	for _, row := range list {
		if row.Value == nil || row.Origin == "" {
			t.Errorf("json: %s: got %v, %q", row.Key, row.Value, row.Origin)
		}
	}
	if _, err := configCommand(t, append(args, "xml")...); err == nil || !strings.Contains(err.Error(), `"-o, --output" flag: must be table, yaml or json`) {
		t.Errorf("-o xml: got %v", err)
	}
}

func TestHelpShowsEveryKey(t *testing.T) {
	out, err := configCommand(t, "show", "--help")
	must(t, err)
	for _, want := range []string{
		"--gossip.seeds list ", "--snapshot.every duration ", "(default 15m)", "--etcd.client-cert-auth ", "-c, --config file ", "--etcd.feature-gates map ",
		"Domain of the members' host names (SLOT.CLUSTER.DOMAIN)",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("help lacks %q", want)
		}
	}
}
