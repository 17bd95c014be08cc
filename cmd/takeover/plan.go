package takeover

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"holdfast/cmd/config"
	"holdfast/cmd/node"
	"holdfast/embedded"
	"holdfast/embedded/plan"
	"holdfast/snapshot"
)

// Code says what kind of finding a plan has.
type Code string

// The codes of a plan's findings.
const (
	codeRefused     Code = "config-refused"  // the node would not start with this configuration
	codeSlots       Code = "slots"           // cluster.slots is not what the members have
	codeVolume      Code = "volume"          // there is no volume, or not one alone, with data to take over
	codeHeld        Code = "volume-held"     // holdfast has the volume already
	codeData        Code = "data"            // the data cannot be taken up as it is
	codeUnknown     Code = "members-unknown" // etcd runs, and does not tell who its members are
	codeDecision    Code = "decision"        // the node would wait, by what is known
	codeStore       Code = "store"           // the backup store does not answer
	codeMark        Code = "mark-missing"    // etcd-manager's mark of a cluster that exists is not in the store
	codeSpec        Code = "spec"            // etcd-manager's spec is not what the cluster is
	codeBackup      Code = "backup-missing"  // there is no recent verified backup
	codePort        Code = "port-in-use"     // another program has a port that holdfast needs
	codeClients     Code = "client-address"  // nobody listens where clients will find etcd
	codeName        Code = "name-unknown"    // the host name of a member leads nowhere
	codeSilent      Code = "member-silent"   // a member does not answer at its peer URL
	codeCertificate Code = "certificate"     // a member's certificate is not one that this node trusts
	codeLeader      Code = "leader"          // the member of this machine leads
)

// Plan is what a takeover of this machine would meet and do.
type Plan struct {
	Node      string          `json:"node"`
	Slot      string          `json:"slot,omitempty"`
	Volume    string          `json:"volume,omitempty"` // directory
	Program   plan.Program    `json:"program,omitempty"`
	Path      string          `json:"path,omitempty"`       // of etcd's data, relative to the volume
	Token     string          `json:"token,omitempty"`      // "" where the disk does not tell it
	Cluster   string          `json:"cluster_id,omitempty"` // hexadecimal, as etcdctl prints it
	Member    string          `json:"member_id,omitempty"`  // the same
	Version   string          `json:"cluster_version,omitempty"`
	Running   string          `json:"running,omitempty"`  // what an etcd has locked
	Endpoint  string          `json:"endpoint,omitempty"` // of the etcd that told of the members; "": the disk did
	Members   []PlannedMember `json:"members,omitempty"`
	Findings  []Finding       `json:"findings"` // what is in the way first
	Obstacles int             `json:"obstacles"`
	Steps     []string        `json:"steps"`  // what happens, in this order
	Frozen    string          `json:"frozen"` // what waits until the last member is taken over
}

// PlannedMember is a member of the cluster that is to be taken over.
type PlannedMember struct {
	ID      string `json:"id,omitempty"` // hexadecimal; "" where it is not known
	Name    string `json:"name,omitempty"`
	Slot    string `json:"slot,omitempty"`
	PeerURL string `json:"peer_url,omitempty"`
	Own     bool   `json:"own,omitempty"` // of this machine
	Leads   bool   `json:"leads,omitempty"`
}

// Seen is what was found on a machine. A field is zero where there was nothing to look at.
type Seen struct {
	Config  config.Config
	Refused []error // why a node would not start
	Slots   error   // why the slots are not known
	Volumes []Volume
	Unseen  error // why the volumes are not known
	Told    *Told // what etcd says; nil: it was not asked, or Silent says why it did not answer
	Silent  error
	Store   Store
	Taken   []config.Endpoint // of the configuration, at which somebody listens
	Others  []Reach           // the members elsewhere
	Now     time.Time
}

// Volume is a directory that may be a volume with another program's data.
type Volume struct {
	Slot, Path string
	Held       string                  // why another process has it; "" if none has
	Origin     *plan.Origin            // nil: there is no foreign data
	Err        error                   // why that cannot be told
	Running    string                  // what an etcd has locked
	Lists      *embedded.Memberships   // nil while an etcd runs
	Findings   []Finding               // of Check, while no etcd runs
	Names      []embedded.ListedMember // by etcd-manager's file state, without IDs
}

// Told is what an etcd says of its cluster.
type Told struct {
	Endpoint string
	Members  []embedded.ListedMember
	Leader   uint64
	Version  string // of the cluster
}

// Store is what the backup store says.
type Store struct {
	Err     error
	Control snapshot.Control
	Record  *plan.Record
	// Returned: the cluster of Record was given back.
	Returned bool
	Newest   *snapshot.Backup // that can be relied on
}

// Reach is whether a member elsewhere can be reached.
type Reach struct {
	Slot, URL string
	Unknown   error // its name leads nowhere
	Silent    error // nobody answers
	Distrust  error // its certificate is not trusted here
}

// Judge says what a takeover would meet and do. It asks nobody.
func Judge(s Seen) Plan {
	p := Plan{Node: s.Config.Node.Name, Findings: []Finding{}, Steps: []string{}, Frozen: plan.Frozen}
	for _, err := range s.Refused {
		p.block(codeRefused, err.Error(), "")
	}
	if s.Slots != nil {
		p.block(codeSlots, s.Slots.Error(), "set cluster.slots")
	}
	if v := p.volume(s); v != nil {
		o := p.cluster(s, v)
		p.decide(s, v, o)
		p.members(s, o)
		p.manager(s, o)
		p.ports(s, v)
		p.steps(s, o)
	}
	p.store(s)
	slices.SortStableFunc(p.Findings, func(a, b Finding) int {
		return cmp.Compare(map[bool]int{true: 0, false: 1}[a.Blocks], map[bool]int{true: 0, false: 1}[b.Blocks])
	})
	for _, f := range p.Findings {
		if f.Blocks {
			p.Obstacles++
		}
	}
	return p
}

func (p *Plan) block(code Code, text, cure string) {
	p.Findings = append(p.Findings, Finding{Code: code, Blocks: true, Text: text, Cure: cure})
}

func (p *Plan) warn(code Code, text, cure string) {
	p.Findings = append(p.Findings, Finding{Code: code, Text: text, Cure: cure})
}

// volume chooses the volume with data to take over, nil if there is not exactly one.
func (p *Plan) volume(s Seen) *Volume {
	if s.Unseen != nil {
		p.block(codeVolume, s.Unseen.Error(), "name the directory of the data: `holdfast takeover plan DIR`")
	}
	var found []*Volume
	var looked []string
	for i := range s.Volumes {
		v := &s.Volumes[i]
		looked = append(looked, v.Path)
		if v.Err != nil {
			p.block(codeVolume, v.Err.Error(), "")
		}
		if v.Origin != nil {
			found = append(found, v)
		}
	}
	key, _ := s.Config.VolumeDirectory()
	switch {
	case len(found) == 0 && len(p.Findings) == 0:
		p.block(codeVolume, fmt.Sprintf("there is no data of etcd-manager or plain etcd in %s", strings.Join(looked, ", ")),
			fmt.Sprintf("set %s to where the data is; volume.local.directory names the data directory itself", key))
	case len(found) > 1:
		p.block(codeVolume, fmt.Sprintf("%d volumes have data of another program (%s, %s): a node takes over one", len(found),
			found[0].Path, found[1].Path), "set volume.local.slot, or name the directory: `holdfast takeover plan DIR`")
	}
	if len(found) != 1 {
		return nil
	}
	v := found[0]
	p.Slot, p.Volume, p.Running = v.Slot, v.Path, v.Running
	if v.Held != "" {
		p.block(codeHeld, fmt.Sprintf("the volume in %s is not free: %s", v.Path, v.Held),
			"`holdfast takeover status` shows how far the takeover is")
	}
	return v
}

// cluster says whose data it is, and who its members are.
func (p *Plan) cluster(s Seen, v *Volume) plan.Origin {
	o := *v.Origin
	p.Findings = append(p.Findings, v.Findings...)
	if o.Obstacle != "" && len(v.Findings) == 0 {
		p.block(codeData, o.Obstacle, "")
	}
	list, version := v.Names, ""
	switch {
	case s.Told != nil:
		list, version, p.Endpoint = s.Told.Members, s.Told.Version, s.Told.Endpoint
	case v.Lists != nil:
		list, version = v.Lists.V3, v.Lists.ClusterVersion
		o.Cluster, o.Member = v.Lists.Cluster, v.Lists.Member
	}
	disk := embedded.Disk{Names: node.MemberNames(s.Config)}
	for i := range list { // etcd-manager's file has no IDs; ours is in the log
		if slot, _ := disk.Names.SlotOfURL(strings.Join(list[i].PeerURLs, "")); list[i].ID == 0 && slot == v.Slot {
			list[i].ID = o.Member
		}
	}
	if len(list) > 0 {
		var wrong []string
		o, wrong = disk.Told(o, list, version)
		for _, text := range wrong {
			p.block(codeData, text, "")
		}
	}
	p.Program, p.Path, p.Token, p.Version = o.Program, o.Path, o.Token, version
	if o.Member != 0 {
		p.Cluster, p.Member = fmt.Sprintf("%x", o.Cluster), fmt.Sprintf("%x", o.Member)
	}
	for _, m := range o.Members {
		listed := PlannedMember{Name: m.Name, Slot: m.Slot, PeerURL: m.PeerURL, Own: m.ID == o.Member,
			Leads: s.Told != nil && m.ID == s.Told.Leader}
		if m.ID != 0 {
			listed.ID = fmt.Sprintf("%x", m.ID)
		}
		if p.Members = append(p.Members, listed); listed.Own {
			p.Slot = cmp.Or(p.Slot, m.Slot)
		}
	}
	slices.SortFunc(p.Members, func(a, b PlannedMember) int { return cmp.Compare(a.Slot, b.Slot) })
	return o
}

// decide has the node's own decision made, by what is known.
func (p *Plan) decide(s Seen, v *Volume, o plan.Origin) {
	whole := s.Told != nil || v.Lists != nil
	if !whole && v.Running != "" {
		why := "it was not asked"
		if s.Silent != nil {
			why = s.Silent.Error()
		}
		p.warn(codeUnknown, "the etcd that runs here does not tell its members and its version: "+why,
			"see that the configuration has its client URLs and certificates; else the node finds out when etcd has stopped")
	}
	if !whole || p.has(codeData) { // of the members nothing is known yet, or what is wrong with them was said
		o.Obstacle, o.Version = "", ""
		o.Members = []plan.Elder{{ID: o.Member, Slot: p.Slot, Name: p.Slot,
			PeerURL: strings.Replace(s.Config.Etcd.PeerURL, config.SlotMark, p.Slot, 1)}}
	}
	obs := plan.Observation{Node: s.Config.Node.Name, Config: node.Wanted(s.Config),
		Claim: plan.Claim{Held: true, Slot: p.Slot}, Disk: plan.Disk{Origin: &o},
		Store: plan.Store{Record: s.Store.Record, Returned: s.Store.Returned}}
	for _, command := range s.Store.Control.Commands {
		obs.Store.Requests = append(obs.Store.Requests, plan.Request{Command: command})
	}
	// It names one reason at a time: what was said is taken away, to hear the next.
	said := ""
	for _, without := range []func(){func() {}, func() { obs.Config.Adopt = true }, func() { obs.Store.Requests = nil },
		func() { obs.Store.Record = nil }} {
		without()
		a := obs.Adopting()
		if a.Kind == plan.Adopt {
			p.Steps = append(p.Steps, a.Why)
			return
		}
		if text := a.Text(); text != said {
			p.block(codeDecision, text, "")
			said = text
		}
	}
}

// has reports whether something of a kind is in the way.
func (p *Plan) has(code Code) bool {
	return slices.ContainsFunc(p.Findings, func(f Finding) bool { return f.Code == code && f.Blocks })
}
