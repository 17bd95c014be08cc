// Package layout knows where the programs that run etcd keep its data on a volume, and whether an etcd uses that data.
// Both the claim of a volume and the takeover of its data use it, so that they agree on what is another program's data.
//
// It only reads. The one lock that it takes is shared, and held for a moment.
package layout
