package plan

import "strings"

// origin reads a story's foreign data: its program, cluster and member, and the members; c:-3 has never started.
func (r *reader) origin(p map[string]string) {
	from := &Origin{Program: Program(p["0"]), Path: "data/t", Token: "t", Cluster: r.number(p["cluster"]), Member: r.number(p["member"]),
		Version: p["version"], Obstacle: p["obstacle"]}
	for _, m := range r.members(strings.ReplaceAll(p["members"], "-", "")) {
		name := "etcd-" + m.Slot
		if strings.Contains(p["members"], m.Slot+":"+"-") {
			name = ""
		}
		from.Members = append(from.Members, Elder{ID: m.ID, Name: name, PeerURL: PeerURL(r.o.Config.PeerURL, m.Slot), Slot: m.Slot, Learner: m.Learner})
	}
	r.o.Disk.Origin = from
}

// adopted is the record of the cluster 7 with the slots a, b and c, named "adopted"; "adopted-otherwise" has another
// peer URL.
func adopted(name string) *Record {
	from := wholeOrigin()
	switch name {
	case "adopted":
		rec := AdoptedRecord("main", "https://{slot}.main:2380", from)
		return &rec
	case "adopted-otherwise":
		rec := AdoptedRecord("main", "https://etcd-{slot}.main:2380", from)
		return &rec
	}
	return nil
}
