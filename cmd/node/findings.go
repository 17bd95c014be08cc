package node

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"holdfast/cmd/config"
	"holdfast/embedded"
	"holdfast/embedded/generations"
	"holdfast/embedded/health"
	"holdfast/embedded/plan"
	"holdfast/gossip"
)

// found returns the findings of this node's parts: gossip, volumes, certificates, configuration, and the members'
// names, which a line in /etc/hosts can redirect at any time.
func (n *node) found() []health.Finding {
	now := n.coord.Now()
	all := slices.Concat(GossipFindings(n.mesh.Problems()), now.Findings(),
		each(health.CertificateFails, n.certificates.Problems()),
		each(health.VolumeTrouble, n.volumes.Problems()), generations.ClockFinding(n.records.Clock()),
		each(health.AuthFails, n.auth.Problems()), each(health.FilesUsedUp, embedded.Crowded()))
	if n.editions != nil {
		all = append(all, n.editions.Findings()...)
	}
	if at, ok := n.mesh.Twin(); ok {
		all = append(all, health.New(health.NodeTwin, n.cfg.Node.Name,
			"another live process calls itself %s, at %s: each node needs its own node.name", n.cfg.Node.Name, at))
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	all = append(all, nameFindings(ctx, n.names)...)
	all = append(all, n.pending.Load().findings(n.cfg.Node.Name)...)
	o := now.Observation
	if d := o.Disagreement(); d != "" {
		all = append(all, health.New(health.SlotsDiffer, "", "%s: %s", n.cfg.Node.Name, d)) // the text says "here"
	}
	return append(all, peerURLFindings(o)...)
}

// pending describes what a restart would change: the process would not start, or keys would get new values.
type pending struct {
	wrong string   // why the changed configuration could not be applied
	keys  []string // the changed keys that need a restart
}

// pendingOf describes the result of the last reload.
func pendingOf(restart []config.Change, err error) *pending {
	p := new(pending)
	if err != nil {
		p.wrong = err.Error()
	}
	for _, c := range restart {
		p.keys = append(p.keys, c.Key)
	}
	return p
}

func (p *pending) findings(node string) []health.Finding {
	switch {
	case p == nil:
	case p.wrong != "":
		return []health.Finding{health.New(health.ConfigWrong, "", "the configuration of %s is wrong since it was changed, "+
			"and the process would not start with it: %s", node, p.wrong)}
	case len(p.keys) > 0:
		return []health.Finding{health.New(health.RestartNeeded, "", "the configuration of %s has changed, and %s runs with "+
			"the old values of %s until it is restarted", node, node, strings.Join(p.keys, ", "))}
	}
	return nil
}

// peerURLFindings compares the peer URLs of the configuration with those that the cluster was founded with.
func peerURLFindings(o plan.Observation) []health.Finding {
	r, s := o.Disk.Ledger.Record, o.Disk.Ledger.Secured
	key := o.Config.FromHTTP != ""
	if r == nil || r.Charter.PeerURL == o.Config.PeerURL && !key {
		return nil
	}
	found := func(format string, args ...any) []health.Finding {
		return []health.Finding{health.New(health.PeerURLDiffer, "", format, args...)}
	}
	switch secure := plan.SecureURL(*r, o.Config.PeerURL) != ""; {
	case key && (secure && s != nil && s.Changed || r.Charter.PeerURL == o.Config.PeerURL):
		return found("every member has a peer URL with https: remove tls.from-http, and the http URL from " +
			"etcd.listen-peer-urls, on one node after the other")
	case secure && s != nil && s.Changed:
		return nil
	case secure && key:
		return found("the members are on the way from http to https (tls.from-http): those with http URLs keep them " +
			"until every node has TLS")
	}
	return found("the configuration makes the peer URL %s, but the cluster was founded with %s: "+
		"set etcd.peer-url to that, "+
		"or what it follows from", o.Config.PeerURL, r.Charter.PeerURL)
}

// nameFindings checks that the members' names resolve, and finds stale lines for them in /etc/hosts.
func nameFindings(ctx context.Context, names *gossip.Resolver) (all []health.Finding) {
	err := names.Check(ctx)
	var stale []gossip.StaleLine
	if err == nil {
		stale, err = names.Stale()
	}
	if err != nil {
		all = append(all, health.New(health.NamesUnknown, "", "%v", err))
	}
	for _, l := range stale {
		all = append(all, staleFinding(l))
	}
	return all
}

func staleFinding(l gossip.StaleLine) health.Finding {
	f := health.New(health.NamesStale, "", "%s line %d says that %s is at %s, but it is "+
		"at %s, and the line counts", l.File,
		l.Number, l.Name, l.Address, addressText(l.Known))
	f.Do = fmt.Sprintf("Correct or remove line %d of %s.", l.Number, l.File)
	if l.Block != "" {
		f.Do = fmt.Sprintf("Remove the block of etcd-manager[%s] from %s: etcd-manager writes it again when it starts.",
			l.Block, l.File)
	}
	return f
}

func addressText(addresses []netip.Addr) string {
	var all []string
	for _, a := range addresses {
		all = append(all, a.String())
	}
	return strings.Join(all, " and ")
}

// each returns a finding with this code for each text.
func each(code health.Code, texts []string) (all []health.Finding) {
	for _, text := range texts {
		all = append(all, health.New(code, "", "%s", text))
	}
	return all
}

// GossipFindings turns problems of the gossip into findings.
func GossipFindings(problems []gossip.Problem) (all []health.Finding) {
	codes := map[string]health.Code{gossip.ProblemSeed: health.GossipSeed, gossip.ProblemSeedsFile: health.GossipSeed,
		gossip.ProblemKey: health.GossipKey, gossip.ProblemCertificate: health.GossipKey,
		gossip.ProblemKeyFile: health.GossipOwn, gossip.ProblemTLS: health.GossipOwn, gossip.ProblemPublish: health.GossipOwn,
		gossip.ProblemTwin: health.NodeTwin}
	for _, p := range problems {
		code, known := codes[p.Kind]
		if !known {
			code = health.GossipStranger
		}
		all = append(all, health.New(code, "", "%s", p.Text))
	}
	return all
}
