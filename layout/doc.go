// Package layout knows where the programs that run etcd keep its data on a volume, and whether an etcd works on it.
// The claim of a volume and the takeover of its data both judge by it, so that what one takes for another program's
// data is that to the other, too.
//
// It reads, and changes nothing: the one lock that it takes is shared, and held for an instant.
package layout
