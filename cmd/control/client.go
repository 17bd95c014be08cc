package control

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"holdfast/cmd/config"
)

// Client talks to one node.
type Client struct {
	At   string // the socket, or host:port of another machine
	URL  string // the prefix of all paths
	hint string // what to do if no node answers
	HTTP http.Client
	// wakes limits how long the process on the socket may take to answer anything at all. It is 0 with TLS, where the
	// handshake has a limit.
	wakes time.Duration
}

// ErrUnreachable is wrapped when no node answers.
var ErrUnreachable = errors.New("no node answers")

// ErrHangs is wrapped as well when a process listens on the socket, but does not answer.
var ErrHangs = errors.New("a process listens there and has said nothing")

// Local returns a client of the node on this machine.
func Local(socket string) *Client {
	var d net.Dialer
	return &Client{At: socket, URL: "http://holdfast", wakes: headerTime,
		hint: "is holdfast running here? (--config FILE or --control.socket says which node is meant)",
		HTTP: http.Client{Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return d.DialContext(ctx, "unix", socket)
			},
			DisableKeepAlives: true,
		}}}
}

// Open returns a client of the node that the configuration names.
func Open(c config.Control) (*Client, error) {
	if c.Remote.Address != "" {
		return newRemote(c.Remote)
	}
	return Local(c.Socket), nil
}

// Args are the arguments of a request, by name.
type Args map[string]any

// Call sends a request to a route, such as "POST /pause", and returns the body of a good answer, which the caller
// closes.
func (c *Client) Call(ctx context.Context, route string, args ...Args) (io.ReadCloser, error) {
	method, path, _ := strings.Cut(route, " ")
	query := url.Values{}
	for _, some := range args {
		for name, value := range some {
			query.Set(name, fmt.Sprint(value))
		}
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, c.URL+path, nil)
	if err != nil {
		return nil, err
	}
	if err := c.awake(ctx); err != nil {
		return nil, err
	}
	resp, err := c.HTTP.Do(req)
	switch {
	case err != nil && errors.Is(ctx.Err(), context.Canceled): // the caller gave up, which says nothing about the node
		return nil, fmt.Errorf("interrupted before the node on %s had answered, which may still do what was asked: %w",
			c.At, context.Canceled)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("%w you on %s: %w; run the command as root, or as the user that runs holdfast", ErrUnreachable,
			c.At, errors.Unwrap(err))
	case errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET):
		return nil, fmt.Errorf("%w on %s: the connection ended before an answer came; it may have done what was asked of "+
			"it; %s", ErrUnreachable, c.At, c.hint)
	case err != nil:
		return nil, fmt.Errorf("%w on %s: %w; %s", ErrUnreachable, c.At, errors.Unwrap(err), c.hint)
	}
	if resp.StatusCode == http.StatusOK {
		return resp.Body, nil
	}
	defer resp.Body.Close()
	var e failure
	if err := json.NewDecoder(resp.Body).Decode(&e); err == nil && e.Error != "" {
		return nil, errors.New(e.Error)
	}
	why := ""
	if resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusMethodNotAllowed {
		why = ": its version does not know this command; nothing was changed"
	}
	return nil, fmt.Errorf("the node on %s answered %s%s", c.At, resp.Status, why)
}

// awake returns an error if the process on the socket does not answer a trivial request. For a suspended process, the
// kernel still accepts connections, and the real request may take long. The real request reports any other error.
func (c *Client) awake(ctx context.Context) error {
	if c.wakes == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.wakes, ErrHangs)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL+"/", nil)
	if err != nil {
		return err
	}
	resp, err := c.HTTP.Do(req)
	switch {
	case err == nil:
		return resp.Body.Close()
	case errors.Is(context.Cause(ctx), ErrHangs):
		return fmt.Errorf("%w on %s: %w for %s: it is suspended, or hangs; let it continue (kill -CONT), or restart it",
			ErrUnreachable, c.At, ErrHangs, c.wakes)
	}
	return nil
}

// Get sends a request and decodes the answer into v.
func (c *Client) Get(ctx context.Context, route string, v any, args ...Args) error {
	body, err := c.Call(ctx, route, args...)
	if err != nil {
		return err
	}
	defer body.Close()
	if err := json.NewDecoder(body).Decode(v); err != nil {
		return fmt.Errorf("decode the answer of %s: %w", c.At, err)
	}
	return nil
}

// Do sends a request whose answer has no content.
func (c *Client) Do(ctx context.Context, route string, args ...Args) error {
	return c.Get(ctx, route, &struct{}{}, args...)
}

// newRemote returns a client of a node on another machine.
func newRemote(c config.Remote) (*Client, error) {
	pair, pool, err := readIdentity(c.CertFile, c.KeyFile, c.CAFile)
	if err != nil {
		return nil, fmt.Errorf("control.remote: %w", err)
	}
	return OpenAs(c.Address, "", pair, pool), nil
}

// OpenAs returns a client of a node on another machine, at host:port, that shows the certificate own. The node's
// certificate must be of the authorities and have name, or the host of the address if name is empty.
func OpenAs(address, name string, own tls.Certificate, authorities *x509.CertPool) *Client {
	return &Client{At: address, URL: "https://" + address,
		hint: "does that node's control.listen say so, and is it reached from here?",
		HTTP: http.Client{Transport: &http.Transport{
			TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{own},
				RootCAs: authorities, ServerName: name},
			TLSHandshakeTimeout: headerTime,
			DisableKeepAlives:   true,
		}}}
}
