package cmd

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"holdfast/cmd/config"
)

// demoConfig is the template of a node's configuration. It is written for people: they learn from it how to
// write their own.
const demoConfig = `# Node {{.Name}} of "holdfast demo", which writes this file anew each time it starts: copy it before you change it.
# To run this node by hand:  holdfast run --config {{.Config}}
# Every other key has its default; "holdfast config default" explains them all. What is different on real
# machines is said below.

cluster:
  name: demo
  # The members. All nodes have the same slots; a node takes one that is free.
  slots: [{{join .Slots ", "}}]

node:
  # Real machines: leave it out, the host name will do.
  name: {{.Name}}
  # Real machines: an address at which the others reach this one.
  address: {{.Address}}
  # The control socket is here, and the scratch space to verify backups in.
  data-dir: {{path .Dir .Name}}

gossip:
  # Any of the nodes; one that answers is enough, and this one may be among them.
  seeds: [{{join .Seeds ", "}}]
  # Real machines: beyond loopback etcd and the gossip are secured by themselves (tls.mode).

volume:
  local:
    # Real machines: the mount point of a disk of its own, and no scope.
    root: {{path .Dir "volumes"}}
    # All nodes share this root.
    scope: machine
{{- if .Standby}}
    # A standby takes the slot of a dead node at once, for you to see it. Real machines: leave it out (10s).
    takeover-after: 0s
{{- end}}

snapshot:
  # Real machines: a directory that all nodes share, on other disks than the volumes.
  store: {{path .Dir "snapshots"}}

stop:
  # The demo stops all nodes at once: there is nobody to hand the leadership to. Real machines: leave it out (10s).
  wait: 0s
`

// demoNode is a node of the demo as its own configuration describes it.
type demoNode struct {
	name    string
	address string
	config  string // path
	log     string // path
	cfg     config.Config
}

// write writes the plan and the nodes' configurations.
func (d *demoDir) write() ([]demoNode, error) {
	data, err := json.MarshalIndent(d.plan, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", planName, err)
	}
	if err := replaceFile(filepath.Join(d.path, planName), append(data, '\n')); err != nil {
		return nil, err
	}
	for _, dir := range []string{"volumes", "snapshots"} { // nodes make neither: to them it may be a missing mount
		if err := os.MkdirAll(filepath.Join(d.path, dir), 0o700); err != nil {
			return nil, fmt.Errorf("make the demo's directory: %w", err)
		}
	}
	var nodes []demoNode
	for i, address := range d.plan.addresses() {
		path := filepath.Join(d.path, fmt.Sprintf("n%d", i+1))
		n := demoNode{name: filepath.Base(path), address: address.String(), config: path + ".yaml", log: path + ".log"}
		text, err := d.configText(n)
		if err == nil {
			err = os.WriteFile(n.config, []byte(text), 0o600)
		}
		if err != nil {
			return nil, fmt.Errorf("write the configuration of %s: %w", n.name, err)
		}
		loaded, err := config.Load(n.config, nil, nil)
		if err != nil {
			return nil, fmt.Errorf("the configuration of %s: %w", n.name, err)
		}
		n.cfg = loaded.Config
		nodes = append(nodes, n)
	}
	return nodes, nil
}

// configText is the configuration of a node.
func (d *demoDir) configText(n demoNode) (string, error) {
	t, err := template.New("").Funcs(template.FuncMap{"join": strings.Join, "path": yamlPath}).Parse(demoConfig)
	if err != nil {
		return "", err
	}
	var seeds []string
	for _, a := range d.plan.addresses() {
		seeds = append(seeds, a.String())
	}
	var b strings.Builder
	err = t.Execute(&b, map[string]any{"Name": n.name, "Address": n.address, "Dir": d.path, "Config": n.config,
		"Slots": d.plan.Slots, "Seeds": seeds, "Standby": d.plan.Nodes > len(d.plan.Slots)})
	return b.String(), err
}

// yamlPath joins a path and writes it as YAML, of which JSON's strings are a part.
func yamlPath(elements ...string) (string, error) {
	data, err := json.Marshal(filepath.Join(elements...))
	return string(data), err
}
