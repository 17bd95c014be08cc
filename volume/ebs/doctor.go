package ebs

// Judgement is what a [Doctor] thinks of something.
type Judgement int

const (
	Well     Judgement = iota // as it should be
	Doubtful                  // a node can do without it
	Missing                   // a node cannot do without it
)

// shortIO bounds the values of nvme_core.io_timeout that are doubtful, in seconds: earlier kernels allow no more
// than 255.
const shortIO = 255
