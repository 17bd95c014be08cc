// Package takeover examines the data of a cluster that another program runs: plain etcd, or etcd-manager.
//
// [Check] reads the data directories of its members, changes nothing, and says what would keep this etcd from running on
// them, each with the way out. What a directory says of the members is read by [embedded.ReadMemberships]; here it is
// judged, and compared from member to member.
package takeover
