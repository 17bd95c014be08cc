package embedded

// Disk reads, moves and builds data directories on which no etcd runs. Names says what their members are called.
type Disk struct{ Names Names }
