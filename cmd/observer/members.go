package observer

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"holdfast/cmd/config"
	"holdfast/cmd/node"
	"holdfast/embedded/coordinator"
	"holdfast/embedded/health"
	"holdfast/embedded/plan"
	"holdfast/gossip"
	"holdfast/gossip/discover"
	"holdfast/metrics"
)

// members tells from the gossip where the members are: a [discover.Feed].
type members struct {
	*gossip.Observer
	serving plan.Servers
}

func (m *members) View() discover.View {
	nodes := m.Nodes()
	m.serving = plan.Serving(peersOf(nodes), m.serving)
	v := discover.View{Known: m.serving.Known, Voters: m.serving.Voters}
	for _, r := range m.serving.Running {
		i := slices.IndexFunc(nodes, func(n gossip.Node) bool { return n.Node == r.Node })
		if i < 0 {
			continue
		}
		v.Running = append(v.Running, discover.Entry{Slot: r.Slot, Node: r.Node, Address: nodes[i].Address,
			PeerURL: strings.ReplaceAll(r.PeerURL, config.SlotMark, r.Slot), Clients: r.Clients, Control: r.Control,
			Leader: r.Leader, Live: r.Live})
	}
	return v
}

func (m *members) Problems() (all []string) {
	for _, p := range m.Observer.Problems() {
		all = append(all, p.Text)
	}
	return all
}

// peersOf decodes what the nodes say of themselves. What this version does not understand is nothing said.
func peersOf(nodes []gossip.Node) []plan.Peer {
	peers := make([]plan.Peer, 0, len(nodes))
	for _, n := range nodes {
		p := plan.Peer{Node: n.Node, Live: n.Live}
		if n.State != nil {
			var err error
			if p.Facts, err = coordinator.ReadFacts(n.State); err != nil {
				p.Unread = err.Error()
			}
		}
		peers = append(peers, p)
	}
	return peers
}

// answers are what the HTTP server of an observer tells.
type answers struct {
	cluster string
	mesh    *gossip.Observer
	watcher *discover.Watcher
	clients *clients
}

func (o answers) livez(context.Context) []metrics.Check {
	return []metrics.Check{{Name: "discover", Detail: "runs"}}
}

// readyz says whether what is written can be relied on.
func (o answers) readyz(context.Context) []metrics.Check {
	s := o.watcher.State()
	known := metrics.Check{Name: "members", Detail: strings.Join(discover.Places(s.Entries), ", ")}
	switch {
	case !s.Known:
		known.Err = errors.New("no leader was ever heard of")
	case len(s.Missing) > 0:
		known.Warning = "not heard of the members in " + strings.Join(s.Missing, ", ")
	}
	files := metrics.Check{Name: "files", Detail: "up to date"}
	for _, text := range s.Failed {
		files.Err = errors.New(text)
	}
	return append([]metrics.Check{known, files}, o.clients.checks(time.Now())...)
}

// status is the document behind /status.
func (o answers) status(context.Context) (any, error) {
	s, problems := o.watcher.State(), health.Texts(node.GossipFindings(o.mesh.Problems()))
	for _, c := range o.clients.checks(time.Now()) {
		if c.Warning != "" {
			problems = append(problems, c.Name+": "+c.Warning)
		}
	}
	return map[string]any{"cluster": o.cluster, "members": s.Entries, "missing": s.Missing,
		"problems": problems}, nil
}
