package embedded

// Disk reads, moves and makes data directories on which no etcd runs. Names are what their members are called.
type Disk struct{ Names Names }
