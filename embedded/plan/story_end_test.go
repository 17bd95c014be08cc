package plan

import (
	"fmt"
	"strings"
)

// ending reads how a generation ends, with these nouns and properties:
//
//	node n1 alone blind starting
//	member confirmed consent=R                 the consent is to end our own record's generation, O:R for another's
//	disk left=R/a:1,b:2,c:3 aborted=R what was noted when it left, with the members
//	peer n2 left=R/a:1,b:2,c:3 consent=R confirmed nonce=x removed=5
//	store concluded=X/R,Y/Q aborted=R,Q met=n2,n3 late=n4 nonce=x unproven=2 doubt="..."
//	restore R led=n2 overruled=d1,d2 revision=64
func (r *reader) ending(noun string, p map[string]string, has func(string) bool) {
	o := &r.o
	switch noun {
	case "node":
		o.Alone, o.Leaderless, o.Blind, o.Starting = has("alone"), has("leaderless"), has("blind"), has("starting")
	case "member":
		o.Member.Confirmed = has("confirmed")
		of, id, other := strings.Cut(p["consent"], ":")
		switch mine := o.Disk.Ledger.Record; {
		case other:
			o.Member.Consent = &Consent{Record: r.record(of).ID, Proposal: r.id(id), By: "root"}
		case of != "":
			o.Member.Consent = &Consent{Record: mine.ID, Proposal: r.id(of), By: "root"}
		}
	case "disk":
		o.Disk.Ledger.Left = r.left(p["left"])
		if has("taken") {
			o.Disk.Ledger.Taken = o.Disk.Ledger.Record.ID
		}
		for _, name := range list(p["aborted"]) {
			o.Disk.Ledger.Aborted = append(o.Disk.Ledger.Aborted, r.id(name))
		}
	case "store":
		for _, name := range list(p["concluded"]) {
			o.Store.Concluded = append(o.Store.Concluded, *r.record(name))
		}
		for _, name := range list(p["aborted"]) {
			o.Store.Aborted = append(o.Store.Aborted, Abort{ID: r.id(name), Why: "slot b serves"})
		}
		o.Store.Unproven, o.Store.Doubt = r.number(p["unproven"]), p["doubt"]
		o.Store.Met, o.Store.Late, o.Store.Nonce = list(p["met"]), list(p["late"]), p["nonce"]
	}
}

// left reads what a disk noted when it left, with its members after a slash.
func (r *reader) left(s string) *Left {
	name, members, _ := strings.Cut(s, "/")
	if name == "" {
		return nil
	}
	return &Left{Proposal: r.id(name), Members: r.members(members)}
}

// proposal reads the properties of a proposal that ends a generation.
func (r *reader) proposal(x *Restore, p map[string]string, has func(string) bool) {
	if has("led") {
		x.Led = &Stand{Node: p["led"], Leader: true}
	}
	if of := r.record(p["origin"]); of != nil {
		x.Origin = of.ID
	}
	x.PeerURL = p["url"]
	x.Overruled, x.Revision = list(p["overruled"]), int64(r.number(p["revision"]))
}

// list splits at commas; nothing is no list.
func list(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ",")
}

// ended formats the fields of an action that are about an end.
func ended(a Action) string {
	var s string
	if a.Taken != "" {
		s += " taken=" + a.Taken
	}
	if l := a.Left; l != nil {
		s += " left=" + l.Proposal
		var members []string
		for _, m := range l.Members {
			members = append(members, fmt.Sprintf("%s:%x", m.Slot, m.ID))
		}
		if members != nil {
			s += "/" + strings.Join(members, ",")
		}
	}
	if a.Aborted != "" {
		s += " aborted=" + a.Aborted
	}
	return s
}
