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

// Code identifies the kind of a plan's finding.
type Code string

// The codes of a plan's findings.
const (
	codeRefused     Code = "config-refused"  // the node would not start with this configuration
	codeSlots       Code = "slots"           // cluster.slots differs from the members' slots
	codeVolume      Code = "volume"          // not exactly one volume has data to take over
	codeHeld        Code = "volume-held"     // holdfast already holds the volume
	codeData        Code = "data"            // the data cannot be used as it is
	codeUnknown     Code = "members-unknown" // etcd runs, but does not tell its members
	codeDecision    Code = "decision"        // the node would wait, as far as is known
	codeStore       Code = "store"           // the backup store does not answer
	codeMark        Code = "mark-missing"    // etcd-manager's mark of an existing cluster is not in the store
	codeSpec        Code = "spec"            // etcd-manager's spec differs from the cluster
	codeBackup      Code = "backup-missing"  // there is no recent verified backup
	codePort        Code = "port-in-use"     // another program uses a port that holdfast needs
	codeClients     Code = "client-address"  // nothing listens where clients will look for etcd
	codeName        Code = "name-unknown"    // the host name of a member has no address
	codeSilent      Code = "member-silent"   // a member does not answer at its peer URL
	codeCertificate Code = "certificate"     // this node does not trust a member's certificate
	codeLeader      Code = "leader"          // the member of this machine leads
)

// Plan is the result of [Judge]: what is in the way of a takeover of this machine, and its steps.
type Plan struct {
	Node      string          `json:"node"`
	Slot      string          `json:"slot,omitempty"`
	Volume    string          `json:"volume,omitempty"` // directory
	Program   plan.Program    `json:"program,omitempty"`
	Path      string          `json:"path,omitempty"`       // of etcd's data, relative to the volume
	Token     string          `json:"token,omitempty"`      // "" if it is not on the disk
	Cluster   string          `json:"cluster_id,omitempty"` // hexadecimal, as etcdctl prints it
	Member    string          `json:"member_id,omitempty"`  // the same
	Version   string          `json:"cluster_version,omitempty"`
	Running   string          `json:"running,omitempty"`  // the file that a running etcd has locked
	Endpoint  string          `json:"endpoint,omitempty"` // of the etcd that listed the members; "": the disk did
	Members   []PlannedMember `json:"members,omitempty"`
	Findings  []Finding       `json:"findings"` // obstacles first
	Obstacles int             `json:"obstacles"`
	Steps     []string        `json:"steps"`  // in their order
	Frozen    string          `json:"frozen"` // what waits until the last member is taken over
}

// PlannedMember is a member of the cluster to take over.
type PlannedMember struct {
	ID      string `json:"id,omitempty"` // hexadecimal; "" if it is not known
	Name    string `json:"name,omitempty"`
	Slot    string `json:"slot,omitempty"`
	PeerURL string `json:"peer_url,omitempty"`
	Own     bool   `json:"own,omitempty"` // of this machine
	Leads   bool   `json:"leads,omitempty"`
}

// Seen is the result of [Look]. A field is zero if it does not apply.
type Seen struct {
	Config  config.Config
	Refused []error // why a node would not start
	Slots   error   // why the slots are not known
	Volumes []Volume
	Unseen  error // why the volumes are not known
	Told    *Told // etcd's answer; nil if it was not asked, or did not answer
	Silent  error // why etcd did not answer
	Store   Store
	Taken   []config.Endpoint // of the configuration, at which a program listens
	Others  []Reach           // the members on other machines
	Now     time.Time
}

// Volume is a directory that may be a volume with another program's data.
type Volume struct {
	Slot, Path string
	Held       string                  // why another process has it; "" if none has
	Origin     *plan.Origin            // nil: there is no foreign data
	Err        error                   // why Origin is not known
	Running    string                  // the file that a running etcd has locked
	Lists      *embedded.Memberships   // nil while an etcd runs
	Findings   []Finding               // of Check, while no etcd runs
	Names      []embedded.ListedMember // from etcd-manager's file state, without IDs
}

// Told is what a running etcd tells about its cluster.
type Told struct {
	Endpoint string
	Members  []embedded.ListedMember
	Leader   uint64
	Version  string // of the cluster
}

// Store is what the backup store has of the cluster.
type Store struct {
	Err      error // why it is not known
	Control  snapshot.Control
	Record   *plan.Record
	Returned bool             // the cluster of Record was given back
	Newest   *snapshot.Backup // the newest good one
}

// Reach says whether a member on another machine can be reached.
type Reach struct {
	Slot, URL string
	Unknown   error // its name has no address
	Silent    error // it does not answer
	Distrust  error // its certificate is not trusted here
}

// Judge finds what is in the way of a takeover, and its steps. It does no I/O.
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
	p.Obstacles = len(obstacles(p.Findings))
	return p
}

func (p *Plan) block(code Code, text, cure string) {
	p.Findings = append(p.Findings, Finding{Code: code, Blocks: true, Text: text, Cure: cure})
}

func (p *Plan) warn(code Code, text, cure string) {
	p.Findings = append(p.Findings, Finding{Code: code, Text: text, Cure: cure})
}

// volume returns the volume with data to take over, or nil if there is not exactly one.
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

// cluster fills in the cluster and its members.
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
	for i := range list { // etcd-manager's file has no IDs, but the log has this member's
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

// decide calls the node's own decision with what is known.
func (p *Plan) decide(s Seen, v *Volume, o plan.Origin) {
	whole := s.Told != nil || v.Lists != nil
	if !whole && v.Running != "" {
		why := "it was not asked"
		if s.Silent != nil {
			why = s.Silent.Error()
		}
		p.warn(codeUnknown, "the etcd that runs here does not tell its members and its version: "+why,
			"check that the configuration has its client URLs and certificates; otherwise the node learns them only when "+
				"etcd has stopped")
	}
	if !whole || p.has(codeData) { // the members are not known, or what is wrong with them is a finding already
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
	// The decision names one reason at a time. Remove the causes one after the other, to find the next reason.
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

// has reports whether there is an obstacle of this kind.
func (p *Plan) has(code Code) bool {
	return slices.ContainsFunc(p.Findings, func(f Finding) bool { return f.Code == code && f.Blocks })
}
