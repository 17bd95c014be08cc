package takeover

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// Text returns the report for people.
func (r Report) Text() string {
	var b strings.Builder
	for _, m := range r.Members {
		fmt.Fprintln(&b, m.Dir)
		if l := m.Lists; l != nil {
			fmt.Fprintf(&b, "[+] member %x, one of %d of cluster %x; its log ends at index %d, term %d\n", l.Member,
				len(l.V3), l.Cluster, l.Log.Index, l.Log.Term)
			fmt.Fprintf(&b, "[+] cluster version %s, storage version %s\n", cmp.Or(l.ClusterVersion, "not known"),
				cmp.Or(l.StorageVersion, "none, as before etcd 3.6"))
		}
		for _, f := range m.Findings {
			writeFinding(&b, f)
		}
		fmt.Fprintln(&b)
	}
	return conclude(&b, r.Obstacles)
}

// writeFinding writes a finding with its consequences and its cure.
func writeFinding(b *strings.Builder, f Finding) {
	mark := "[!]"
	if f.Blocks {
		mark = "[-]"
	}
	if f.Code != "" {
		mark += " " + string(f.Code) + ":"
	}
	fmt.Fprintln(b, mark, f.Text)
	for _, line := range append(f.Means, f.Cure) {
		if line != "" {
			fmt.Fprintf(b, "      %s\n", line)
		}
	}
}

// conclude returns b with the number of obstacles.
func conclude(b *strings.Builder, obstacles int) string {
	if obstacles > 0 {
		fmt.Fprintf(b, "in the way: %d of these\n", obstacles)
	} else {
		fmt.Fprintln(b, "nothing is in the way")
	}
	return b.String()
}

// Text returns the plan for people.
func (p Plan) Text() string {
	var b strings.Builder
	for _, f := range p.Findings {
		writeFinding(&b, f)
	}
	if len(p.Findings) > 0 {
		fmt.Fprintln(&b)
	}
	if p.Program != "" {
		fmt.Fprintf(&b, "slot %s: member %s of cluster %s, which %s has made\n", cmp.Or(p.Slot, "?"), cmp.Or(p.Member, "?"),
			cmp.Or(p.Cluster, "?"), p.Program)
		fmt.Fprintf(&b, "data: %s in %s; token %s\n", p.Path, p.Volume, cmp.Or(p.Token, "not on the disk"))
		from := "the data"
		if p.Endpoint != "" {
			from = p.Endpoint
		} else if p.Version == "" {
			from = "etcd-manager's file `state`"
		}
		if len(p.Members) > 0 {
			fmt.Fprintf(&b, "members, by %s; cluster version %s\n", from, cmp.Or(p.Version, "not known"))
		}
		for _, m := range p.Members {
			fmt.Fprintf(&b, "  %s  %s  %s  %s%s%s\n", cmp.Or(m.Slot, "-"), cmp.Or(m.ID, "ID not known"), cmp.Or(m.Name,
				"no name"),
				m.PeerURL, map[bool]string{true: "  this machine"}[m.Own], map[bool]string{true: "  leads"}[m.Leads])
		}
		fmt.Fprintln(&b, "\nwhat happens:")
		for i, step := range p.Steps {
			fmt.Fprintf(&b, "  %d. %s\n", i+1, step)
		}
		fmt.Fprintf(&b, "frozen: %s\n\n", p.Frozen)
	}
	return conclude(&b, p.Obstacles)
}

// Text returns the rehearsal for people.
func (r Rehearsal) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "rehearsal on %s\n", r.Source)
	switch {
	case len(r.Real) == 0:
	case len(r.Steps) == 0:
		fmt.Fprintln(&b, "members of the cluster itself; nothing was rehearsed")
	case r.Same:
		fmt.Fprintln(&b, "members of the cluster itself, as which they were rehearsed")
	default:
		fmt.Fprintln(&b, "members of the cluster itself; those of the rehearsal had other IDs")
	}
	for _, m := range r.Real {
		fmt.Fprintf(&b, "  %s  %s  %s  %s\n", cmp.Or(m.Slot, "-"), m.ID, cmp.Or(m.Name, "no name"), m.PeerURL)
	}
	if len(r.Steps) > 0 {
		fmt.Fprintf(&b, "%-50s %8s %8s\n", "step", "took", "gap")
	}
	for _, s := range r.Steps {
		text := s.Text
		if s.Slot != "" {
			text = "slot " + s.Slot + ": " + text
		}
		fmt.Fprintf(&b, "%-50s %8s %8s\n", text, seconds(s.Took), seconds(s.Gap))
	}
	if r.Acked > 0 {
		fmt.Fprintf(&b, "writes: %d acknowledged, %d lost, %d without an answer; the longest gap was %s\n", r.Acked,
			r.Lost, r.Unsure, seconds(r.Gap))
	}
	for _, h := range r.Hashes {
		fmt.Fprintf(&b, "hash of slot %s at revision %d: %08x\n", h.Slot, r.Compared, h.Hash)
	}
	if r.Stopped != "" {
		fmt.Fprintf(&b, "stopped: %s\n", r.Stopped)
	} else {
		fmt.Fprintf(&b, "the rehearsal succeeded, with etcd %s on both sides\n", r.Etcd)
	}
	return b.String()
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }
