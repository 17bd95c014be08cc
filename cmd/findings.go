package cmd

import (
	"context"
	"slices"
	"time"

	"holdfast/embedded/generations"
	"holdfast/embedded/health"
	"holdfast/gossip"
)

// found is what the parts of this node complain of, in the words of health: gossip, volumes, certificates, configuration, and the members'
// names, which a line added to /etc/hosts can take away from us at any time.
func (n *process) found() []health.Finding {
	now := n.coord.Now()
	all := slices.Concat(gossipFindings(n.mesh.Problems()), now.Findings(), each(health.CertificateFails, n.certificates.Problems()),
		each(health.VolumeTrouble, n.volumes.Problems()), generations.ClockFinding(n.records.Clock()), each(health.AuthFails, n.auth.Problems()))
	if n.editions != nil {
		all = append(all, n.editions.Findings()...)
	}
	if at, ok := n.mesh.Twin(); ok {
		all = append(all, health.New(health.NodeTwin, n.cfg.Node.Name, "another live process calls itself %s, at %s: each node needs its own node.name", n.cfg.Node.Name, at))
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := n.names.Check(ctx); err != nil {
		all = append(all, health.New(health.NamesUnknown, "", "%v", err))
	}
	o := now.Observation
	if d := o.Disagreement(); d != "" {
		all = append(all, health.New(health.SlotsDiffer, "", "%s", d))
	}
	if r := o.Disk.Ledger.Record; r != nil && r.Charter.PeerURL != o.Config.PeerURL {
		all = append(all, health.New(health.PeerURLDiffer, "", "the configuration makes the peer URL %s, but the cluster was founded with %s: set scheme, port, cluster.name and cluster.domain back",
			o.Config.PeerURL, r.Charter.PeerURL))
	}
	return all
}

// each is a finding of one kind for each sentence.
func each(code health.Code, texts []string) (all []health.Finding) {
	for _, text := range texts {
		all = append(all, health.New(code, "", "%s", text))
	}
	return all
}

// gossipFindings are the problems of the gossip.
func gossipFindings(problems []gossip.Problem) (all []health.Finding) {
	codes := map[string]health.Code{gossip.ProblemSeed: health.GossipSeed, gossip.ProblemSeedsFile: health.GossipSeed, gossip.ProblemKey: health.GossipKey,
		gossip.ProblemRing: health.GossipOwn, gossip.ProblemPublish: health.GossipOwn, gossip.ProblemUDP: health.GossipUDP, gossip.ProblemTwin: health.NodeTwin}
	for _, p := range problems {
		code, known := codes[p.Kind]
		if !known {
			code = health.GossipStranger
		}
		all = append(all, health.New(code, "", "%s", p.Text))
	}
	return all
}
