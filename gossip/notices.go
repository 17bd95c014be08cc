package gossip

import (
	"cmp"
	"errors"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.uber.org/zap"
)

const (
	noticeAge  = time.Minute // a problem not seen for this long is over; also the pause between two log lines
	maxNotices = 64
)

// Why something was refused: the label of holdfast_gossip_rejected_total.
const (
	reasonKey         = "key"         // other key, or one side has none
	reasonCertificate = "certificate" // one that is not of this mesh, or none
	reasonCluster     = "cluster"     // another cluster's, or of another version
	reasonUnreadable  = "unreadable"  // garbage
	reasonFull        = "full"        // more than we hold: nodes, or questions at once
)

// Problem is what an operator should know of the gossip.
type Problem struct {
	Kind string // one of the Problem constants
	Text string // a sentence
}

// The kinds of problems. What is refused has the label of holdfast_gossip_rejected_total as its kind.
const (
	ProblemSeed        = "seed"            // a seed does not answer, or is invalid
	ProblemSeedsFile   = "seeds-file"      // it cannot be read
	ProblemKey         = reasonKey         // gossip with another key, or one side has none
	ProblemCertificate = reasonCertificate // a certificate that is not of this mesh, or ours is not of another's
	ProblemTLS         = "tls"             // this node has no certificate yet, or cannot sign with it
	ProblemKeyFile     = "key-file"        // it cannot be read any more
	ProblemTwin        = "twin"            // two processes have one name
	ProblemPublish     = "publish"         // this node's state is too large to be told
)

// notices are the current problems. It takes no lock but its own and so may be called from anywhere.
type notices struct {
	lg       *zap.Logger
	rejected *prometheus.CounterVec // what was refused, by reason

	mu    sync.Mutex
	known map[string]*notice
}

type notice struct {
	text         string
	seen, logged time.Time
}

func newNotices(lg *zap.Logger, rejected *prometheus.CounterVec) *notices {
	return &notices{lg: lg, rejected: rejected, known: map[string]*notice{}}
}

// show makes text a problem under key.
func (n *notices) show(key, text string) { n.put(key, text, false) }

// warn does the same, and logs it at most once a minute.
func (n *notices) warn(key, text string) { n.put(key, text, true) }

func (n *notices) put(key, text string, log bool) {
	now := time.Now()
	n.mu.Lock()
	n.expire(now)
	note := n.known[key]
	if note == nil {
		if len(n.known) >= maxNotices {
			n.mu.Unlock()
			return // a flood from forged addresses must cost neither memory nor log
		}
		note = &notice{}
		n.known[key] = note
	}
	note.text, note.seen = text, now
	log = log && (note.logged.IsZero() || now.Sub(note.logged) >= noticeAge)
	if log {
		note.logged = now
	}
	n.mu.Unlock()
	if log {
		n.lg.Warn("gossip problem seen", zap.String("problem", text))
	}
}

// settle ends a problem that is known to be over.
func (n *notices) settle(key string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.known, key)
}

// warnOnly warns of the problems in still, each under prefix and its own key, and ends all others under prefix.
func (n *notices) warnOnly(prefix string, still map[string]string) {
	n.mu.Lock()
	maps.DeleteFunc(n.known, func(key string, _ *notice) bool {
		key, has := strings.CutPrefix(key, prefix)
		return has && still[key] == ""
	})
	n.mu.Unlock()
	for key, text := range still {
		n.warn(prefix+key, text)
	}
}

// Problems returns, sorted, what is wrong in the mesh right now, in sentences for an operator. Each
// disappears when it was not seen for a minute; at most 64 are kept.
func (n *notices) Problems() []Problem {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.expire(time.Now())
	var out []Problem
	for key, note := range n.known {
		kind, _, _ := strings.Cut(key, "/")
		out = append(out, Problem{kind, note.text})
	}
	slices.SortFunc(out, func(a, b Problem) int { return cmp.Compare(a.Text, b.Text) })
	return out
}

func (n *notices) expire(now time.Time) {
	maps.DeleteFunc(n.known, func(_ string, note *notice) bool { return now.Sub(note.seen) >= noticeAge })
}

// reject counts something refused and warns of it.
func (n *notices) reject(reason, key, text string) {
	n.rejected.WithLabelValues(reason).Inc()
	n.warn(key, text)
}

// reasons are the labels of errors in holdfast_gossip_rejected_total.
var reasons = map[error]string{
	errKeys: reasonKey, errCluster: reasonCluster,
	errCertificate: reasonCertificate, errRefusesUs: reasonCertificate, errSpeaks: reasonCertificate,
	errProof: reasonCertificate, errNoneShown: reasonCertificate,
	errHeader: reasonUnreadable, errCompressed: reasonUnreadable, errNoTLS: reasonUnreadable,
	errStreams: reasonFull, errObservers: reasonFull, errBusy: reasonFull, errNodes: reasonFull,
}

// reasonOf is the label of an error. known says that the error is one of ours, and thus the other side's fault.
func reasonOf(err error) (reason string, known bool) {
	for e, reason := range reasons {
		if errors.Is(err, e) {
			return reason, true
		}
	}
	return reasonUnreadable, false
}

// blame has refused hear of an error only if it is the other side's fault.
func blame(refused func(from string, err error), from string, err error) {
	if _, known := reasonOf(err); known {
		refused(from, err)
	}
}

// refused reports what the transport has refused of an address.
func (n *notices) refused(from string, err error) {
	host, _, _ := net.SplitHostPort(from)
	reason, _ := reasonOf(err)
	n.reject(reason, reason+"/"+host, host+": "+err.Error())
}

// blamed reports whether a problem of an address is known.
func (n *notices) blamed(host string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for key := range n.known {
		if _, of, _ := strings.Cut(key, "/"); of == host {
			return true
		}
	}
	return false
}

// newCounters makes the metrics of a process, and returns what counts refusals and joins. It panics if reg has them
// already.
func newCounters(reg prometheus.Registerer, nodes func(live bool) float64) (rejected, joins *prometheus.CounterVec) {
	auto := promauto.With(reg)
	rejected = auto.NewCounterVec(prometheus.CounterOpts{
		Name: "holdfast_gossip_rejected_total",
		Help: "Packets, streams, messages, nodes and questions refused, by reason.",
	}, []string{"reason"})
	joins = auto.NewCounterVec(prometheus.CounterOpts{
		Name: "holdfast_gossip_joins_total",
		Help: "Attempts to reach a seed or a lost node, by result (joined, failed).",
	}, []string{"result"})
	for _, reason := range []string{reasonKey, reasonCertificate, reasonCluster, reasonUnreadable, reasonFull} {
		rejected.WithLabelValues(reason)
	}
	for _, result := range []string{"joined", "failed"} {
		joins.WithLabelValues(result)
	}
	for _, live := range []bool{true, false} {
		auto.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "holdfast_gossip_nodes",
			Help:        "Nodes of the mesh known to this one, itself included.",
			ConstLabels: prometheus.Labels{"live": strconv.FormatBool(live)},
		}, func() float64 { return nodes(live) })
	}
	return rejected, joins
}
