package gossip

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

const (
	noticeAge  = time.Minute // a problem not seen for this long is over; also the pause between two log lines
	maxNotices = 64
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
	ProblemUDP         = "udp"             // a node answers over TCP only
	ProblemTwin        = "twin"            // two processes have one name
	ProblemPublish     = "publish"         // this node's state is too large to be told
)

// notices are the current problems. It takes no lock but its own and so may be called from anywhere.
type notices struct {
	lg       *zap.Logger
	now      func() time.Time
	rejected *prometheus.CounterVec // what was refused, by reason

	mu    sync.Mutex
	known map[string]*notice
}

type notice struct {
	text         string
	seen, logged time.Time
}

func newNotices(lg *zap.Logger, now func() time.Time, rejected *prometheus.CounterVec) *notices {
	return &notices{lg: lg, now: now, rejected: rejected, known: map[string]*notice{}}
}

// show makes text a problem under key.
func (n *notices) show(key, text string) { n.put(key, text, false) }

// warn does the same, and logs it at most once a minute.
func (n *notices) warn(key, text string) { n.put(key, text, true) }

func (n *notices) put(key, text string, log bool) {
	now := n.now()
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

// settleAll ends the problems whose keys begin with prefix.
func (n *notices) settleAll(prefix string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	maps.DeleteFunc(n.known, func(key string, _ *notice) bool { return strings.HasPrefix(key, prefix) })
}

// Problems returns, sorted, what is wrong in the mesh right now, in sentences for an operator. Each
// disappears when it was not seen for a minute; at most 64 are kept.
func (n *notices) Problems() []Problem {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.expire(n.now())
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

// refused reports what the transport has refused.
func (n *notices) refused(from net.Addr, err error) {
	host, reason := "some node", reasonOf(err)
	if h, _, err := net.SplitHostPort(from.String()); err == nil {
		host = h
	}
	n.reject(reason, reason+"/"+host, host+": "+err.Error())
}

// symptom is a part of memberlist's log lines or errors, and what it means to an operator.
type symptom struct{ part, reason, meaning string }

// diagnose finds the symptom of a line. memberlist v0.7 has no other way to learn of these; net.go
// there has the texts.
func diagnose(line string) (symptom, bool) {
	if strings.Contains(line, `discarding stream with unacceptable label ""`) {
		return symptom{}, false // a connection that ended before its first byte: a node that just stopped, or a port check
	}
	for _, err := range []error{errPadding, errCompressed, errHeader, errNoTLS, errCertificate, errRefusesUs, errKeys,
		errCluster} {
		if strings.Contains(line, err.Error()) {
			return symptom{err.Error(), reasonOf(err), err.Error()}, true
		}
	}
	for _, s := range []symptom{
		{"invalid msgType (21)", reasonUnreadable, "it gossips over TLS, and this node does not (tls.mode off)"},
		{"Decrypt packet failed", reasonKey, "its gossip packets are not readable with our keys (other key, or not ours)"},
		{"no installed keys could decrypt", reasonKey, "its gossip is not readable with our keys (other key, or not ours)"},
		{"encryption is configured but remote state is not encrypted", reasonKey,
			"it gossips without a key, gossip.key-file is set here"},
		{"remote state is encrypted and encryption is not configured", reasonKey,
			"it gossips with a key, gossip.key-file is not set here"},
		{"unacceptable label", reasonCluster, "it belongs to another cluster"},
		{"Failed to decode", reasonUnreadable, "its gossip packets are not readable (encrypted, or not ours)"},
		{"not supported", reasonUnreadable, "its gossip packets are not readable (encrypted, or not ours)"},
	} {
		if strings.Contains(line, s.part) {
			return s, true
		}
	}
	return symptom{}, false
}

// listener turns memberlist's log into notices. What it does not know goes to the debug log.
type listener struct {
	*notices
	udp bool // packets go over UDP; over TLS nothing does, whatever memberlist says
}

const udpBlocked = "over TCP but UDP probes failed"

// Write takes one line, as package log promises.
func (l listener) Write(p []byte) (int, error) {
	line := strings.TrimSpace(string(p))
	if s, ok := diagnose(line); ok {
		from := remote(line)
		l.reject(s.reason, s.reason+"/"+from, fmt.Sprintf("%s: %s%s", from, s.meaning, quoted(line)))
	} else if before, _, ok := strings.Cut(line, udpBlocked); ok && l.udp {
		_, process, _ := strings.Cut(before, "connect to ")
		node, _, _ := strings.Cut(process, "#")
		l.warn("udp/"+node, fmt.Sprintf("%s: it answers over TCP but not over UDP (is the gossip port open for UDP?)", node))
	} else {
		l.lg.Debug(line)
	}
	return len(p), nil
}

// remote returns the address in memberlist's trailing "from=host:port", without the port, which is another one for each
// stream.
func remote(line string) string {
	parts := strings.Split(line, "from=")
	host, _, err := net.SplitHostPort(parts[len(parts)-1])
	if err != nil {
		return "some node"
	}
	return host
}

// quoted returns the other cluster's label, if the line has one.
func quoted(line string) string {
	_, rest, ok := strings.Cut(line, "label \"")
	if !ok {
		return ""
	}
	label, _, _ := strings.Cut(rest, "\"")
	return fmt.Sprintf(" (%q)", label)
}
