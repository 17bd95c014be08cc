package control

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/user"
	"slices"
	"strconv"
	"time"

	"go.uber.org/zap"
	"golang.org/x/net/netutil"

	"holdfast/cmd/config"
)

// The limits of a connection, and of the number of connections from other machines. There is no limit for an answer,
// which may take long. net/http's limit for reading a request would cancel its context later; a request has no body.
const (
	headerTime     = 5 * time.Second // also for the TLS handshake
	maxConnections = 64
)

// WriteTime is how long a client may take to accept a line of progress before it counts as gone.
const WriteTime = time.Minute

// role is what a caller may do.
type role int

const (
	mayNothing role = iota
	mayOwn          // may ask for what concerns the caller's own certificate
	mayLook
	mayChange
)

// caller is the sender of a request.
type caller struct {
	name string // for the history
	role role
	mesh bool   // its certificate is of the peers' authority
	why  string // why a request is refused
}

// WhoAsks returns the name of the sender of a request, or "" if the system does not know it.
func WhoAsks(r *http.Request) string {
	who, _ := r.Context().Value(peerKey{}).(caller)
	return who.name
}

// Shown returns the certificate of the sender of a request, and whether it is of the peers' authority. A request for
// the sender's own certificate has no other argument.
func Shown(r *http.Request) (c *x509.Certificate, mesh bool, err error) {
	who, _ := r.Context().Value(peerKey{}).(caller)
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return nil, false, errors.New("no certificate was shown: a machine without a node asks for its own, over " +
			"control.listen")
	}
	return r.TLS.PeerCertificates[0], who.mesh, nil
}

// peerKey is the key of a caller in a context.
type peerKey struct{}

// withPeer adds the caller to the context of a connection to the socket. A caller from another machine is known only
// after the TLS handshake.
func withPeer(ctx context.Context, conn net.Conn) context.Context {
	if _, remote := conn.(*tls.Conn); remote {
		return ctx
	}
	uid, known := peerUID(conn)
	return context.WithValue(ctx, peerKey{}, localCaller(uid, known, os.Geteuid()))
}

// localCaller returns the caller for a process of this machine. On a system that never tells the user, only the
// socket's mode restricts access.
func localCaller(uid uint32, known bool, own int) caller {
	if !known {
		if peerKnown {
			return caller{why: "the system does not tell who asks"}
		}
		return caller{role: mayChange}
	}
	name := fmt.Sprintf("uid %d", uid)
	if u, err := user.LookupId(strconv.FormatUint(uint64(uid), 10)); err == nil {
		name = fmt.Sprintf("%s (uid %d)", u.Username, uid)
	}
	if uid != 0 && int64(uid) != int64(own) {
		return caller{name: name, why: fmt.Sprintf("only root and uid %d, which holdfast runs as, may use this socket", own)}
	}
	return caller{name: name, role: mayChange}
}

// remoteCaller returns the caller of a TLS connection, whose handshake has verified the certificate. The requested
// server name tells which authority it was verified with (meet).
func remoteCaller(c config.Control, mesh *Mesh, state *tls.ConnectionState, from string) caller {
	if state == nil || len(state.VerifiedChains) == 0 {
		return caller{name: from, why: "no certificate was shown"}
	}
	cn := state.PeerCertificates[0].Subject.CommonName
	who := caller{name: fmt.Sprintf("%s from %s", cn, from)}
	switch {
	case mesh != nil && state.ServerName == mesh.Name:
		who.role, who.mesh = mayOwn, true
		who.why = fmt.Sprintf("the certificate of %q is one of the peers' authority, which gives no command", cn)
	case cn != "" && slices.Contains(c.Operators, cn):
		who.role = mayChange
	case cn != "" && slices.Contains(c.Readers, cn):
		who.role = mayLook
	default:
		who.why = fmt.Sprintf("the certificate of %q is named neither by control.readers nor by control.operators", cn)
		if cn != "" {
			who.role = mayOwn
		}
	}
	return who
}

// guarded passes on a request that its caller may make. It refuses a body, which no command has: net/http would wait
// for the rest of it before it answers, however slowly that comes.
func (s *Server) guarded(next http.Handler, routes *Routes) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, local := r.Context().Value(peerKey{}).(caller)
		if !local {
			host, _, _ := net.SplitHostPort(r.RemoteAddr)
			who = remoteCaller(s.Config, s.Mesh, r.TLS, host)
		}
		if r.ContentLength != 0 {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now())
			who.role, who.why = mayNothing, "the request has a body, and no command has one: arguments are in the URL"
		}
		switch own := routes.is(r, Own); {
		case who.role == mayOwn && !own:
			who.role = mayNothing
		case who.role == mayLook && !own && !routes.looks(r):
			who.role, who.why = mayNothing, fmt.Sprintf("%s may look, but not change anything: control.operators does not "+
				"name it", who.name)
		}
		if who.role == mayNothing {
			s.Log.Warn("a command was refused", zap.String("by", who.name), zap.String("command", r.URL.Path),
				zap.String("why", who.why))
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusForbidden)
			writeError(w, errors.New("refused: "+who.why))
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), peerKey{}, who)))
	})
}

// listenRemote listens for other machines. It reads the certificate and the authorities at each handshake, so both can
// be replaced while the node runs.
func (s *Server) listenRemote() (net.Listener, error) {
	each := &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			if s.Mesh != nil && hello.ServerName == s.Mesh.Name {
				return s.Mesh.meet()
			}
			pair, pool, err := readIdentity(s.CertFile, s.KeyFile, s.CAFile)
			if err != nil {
				return nil, err
			}
			return serverTLS(pair, pool), nil
		},
	}
	l, err := net.Listen("tcp", s.Config.Listen)
	if err != nil {
		return nil, fmt.Errorf("control.listen: %w", err)
	}
	return tls.NewListener(netutil.LimitListener(l, maxConnections), each), nil
}

// meet returns the TLS configuration for callers with a certificate of the peers' authority.
func (m *Mesh) meet() (*tls.Config, error) {
	pair, err := m.Certificate()
	if err != nil {
		return nil, err
	}
	pool, err := m.Authorities()
	if err != nil {
		return nil, err
	}
	return serverTLS(*pair, pool), nil
}

// serverTLS requires a certificate of the authorities. It disables session resumption: a session might have begun under
// the other server name, with another authority.
func serverTLS(own tls.Certificate, authorities *x509.CertPool) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{own}, ClientCAs: authorities,
		ClientAuth: tls.RequireAndVerifyClientCert, SessionTicketsDisabled: true,
	}
}

// readIdentity reads a certificate with its key, and the authorities for verifying the other side.
func readIdentity(certFile, keyFile, caFile string) (pair tls.Certificate, pool *x509.CertPool, err error) {
	if pair, err = tls.LoadX509KeyPair(certFile, keyFile); err != nil {
		return pair, nil, fmt.Errorf("read the certificate %s with its key %s: %w", certFile, keyFile, err)
	}
	pool, err = config.ReadPool(caFile)
	return pair, pool, err
}
