// Package takeover looks at a cluster that another program runs: plain etcd, or etcd-manager. It changes nothing there.
//
// [Check] reads the data directories of its members, and says what would keep this etcd from running on them, each with
// the way out. What a directory says of the members is read by [embedded.ReadMemberships]; here it is judged, and
// compared from member to member.
//
// [Look] finds out what there is on a machine that is to be taken over, also while the other program runs: the database
// is locked then, and etcd itself is asked for its members. [Judge] says what is in the way, and what a node would do;
// it asks the node's own decision, [plan.Observation.Adopting], and has none of its own.
//
// [Rehearse] makes a cluster of a backup or of copies, takes it over and gives it back, member by member, while a
// client writes. Real processes play it: nodes of holdfast, and etcd without holdfast. Copies have the IDs and the
// names of the real members, whose cluster they would join if they could: so all of it is in a network of its own, from
// which nobody else can be reached. Where that cannot be made, nothing is rehearsed.
package takeover
