package cmd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
)

const (
	defaultBase = "127.0.0.1"
	maxNodes    = 9
	planName    = "demo.json" // its presence says that the directory is a demo's
)

// demoPlan is what a demo remembers for the next one in its directory. The file is demo.json.
type demoPlan struct {
	Version int        `json:"version"` // 1
	Nodes   int        `json:"nodes"`
	Slots   []string   `json:"slots"` // never changed: a cluster that may be founded does not forget them
	Base    netip.Addr `json:"address_base"`
}

func (p demoPlan) String() string {
	text := fmt.Sprintf("%d nodes", p.Nodes)
	if p.Nodes == 1 {
		text = "1 node"
	}
	text += fmt.Sprintf(" for %d slots (%s)", len(p.Slots), strings.Join(p.Slots, ","))
	if len(p.Slots) == 1 {
		text = strings.Replace(text, "slots", "slot", 1)
	}
	return text
}

// planDemo is what the options ask for, where former is what was there before; nil: nothing.
func planDemo(o demoOptions, former *demoPlan) (demoPlan, error) {
	p := demoPlan{Version: 1, Nodes: max(3, o.slots), Base: netip.MustParseAddr(defaultBase)}
	if former != nil {
		p = *former
	}
	if o.nodes != 0 {
		p.Nodes = o.nodes
	}
	if p.Nodes < 1 || p.Nodes > maxNodes {
		return p, fmt.Errorf("--nodes: must be 1–%d, got %d", maxNodes, p.Nodes)
	}
	switch {
	case former != nil && o.slots != 0 && o.slots != len(p.Slots):
		return p, fmt.Errorf("--slots: the cluster in %s has the slots %s and keeps them, got %d; --clean begins a new one",
			o.dir, strings.Join(p.Slots, ","), o.slots)
	case former == nil:
		n := o.slots
		if n == 0 {
			n = 1
			if p.Nodes >= 3 {
				n = 3
			}
		}
		if n < 1 || n > p.Nodes {
			return p, fmt.Errorf("--slots: must be 1–%d, the number of nodes, got %d", p.Nodes, n)
		}
		p.Slots = strings.Split("abcdefghi"[:n], "")
	}
	if o.base != "" {
		base, err := netip.ParseAddr(o.base)
		if err != nil {
			return p, fmt.Errorf("--address-base: must be a loopback address such as 127.0.1.1, got %q", o.base)
		}
		p.Base = base
	}
	for _, a := range p.addresses() {
		if !a.IsLoopback() { // the demo asks for no authentication: it is for this machine only
			return p, fmt.Errorf("--address-base: must be a loopback address such as 127.0.1.1 for every node, got %s, which leads to %s", p.Base, a)
		}
	}
	return p, nil
}

func (p demoPlan) addresses() []netip.Addr {
	all := make([]netip.Addr, p.Nodes)
	for i, a := 0, p.Base; i < p.Nodes; i, a = i+1, a.Next() {
		all[i] = a
	}
	return all
}

// readPlan reads demo.json; nil when there is none.
func readPlan(dir string) (*demoPlan, error) {
	path := filepath.Join(dir, planName)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the former demo: %w", err)
	}
	var p demoPlan
	err = json.Unmarshal(data, &p)
	if err == nil && (p.Version != 1 || len(p.Slots) == 0 || p.Base.Zone() != "" || !p.Base.IsValid()) {
		err = fmt.Errorf("it is not of version 1, or incomplete")
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w; --clean begins anew", path, err)
	}
	return &p, nil
}
