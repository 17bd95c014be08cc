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
	"time"

	"holdfast/cmd/config"
)

// Client talks to one node.
type Client struct {
	At   string // the socket, or host:port of another machine
	URL  string // what paths are added to
	hint string // what to do when nobody answers
	HTTP http.Client
	// wakes is within what time the process on the socket answers anything at all; 0: the handshake of TLS has a limit.
	wakes time.Duration
}

// ErrUnreachable is wrapped when no node answers on the socket.
var ErrUnreachable = errors.New("no node answers")

// ErrHangs is wrapped beside it when a process listens on the socket, and says nothing.
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

// Open returns a client of the node that the configuration means.
func Open(c config.Control) (*Client, error) {
	if c.Remote.Address != "" {
		return newRemote(c.Remote)
	}
	return Local(c.Socket), nil
}

// Call sends a request and returns the body of a good answer, which the caller closes.
func (c *Client) Call(ctx context.Context, method, path string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.URL+path, nil)
	if err != nil {
		return nil, err
	}
	if err := c.awake(ctx); err != nil {
		return nil, err
	}
	resp, err := c.HTTP.Do(req)
	switch {
	case errors.Is(err, context.Canceled): // by who waits, and so it says nothing about the node
		return nil, fmt.Errorf("interrupted before the node on %s had answered: %w", c.At, context.Canceled)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("%w you on %s: %w; run the command as root, or as the user that runs holdfast", ErrUnreachable,
			c.At, errors.Unwrap(err))
	case err != nil:
		return nil, fmt.Errorf("%w on %s: %w; %s", ErrUnreachable, c.At, errors.Unwrap(err), c.hint)
	}
	if resp.StatusCode == http.StatusOK {
		return resp.Body, nil
	}
	defer resp.Body.Close()
	var e failure
	if err := json.NewDecoder(resp.Body).Decode(&e); err != nil || e.Error == "" {
		return nil, fmt.Errorf("the node on %s answered %s", c.At, resp.Status)
	}
	return nil, errors.New(e.Error)
}

// awake returns an error if the process on the socket answers nothing. The kernel accepts connections for one that is
// suspended, and what is asked for may take its time. Any other error is left to the request itself.
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

// Get asks and decodes the answer into v.
func (c *Client) Get(ctx context.Context, method, path string, v any) error {
	body, err := c.Call(ctx, method, path)
	if err != nil {
		return err
	}
	defer body.Close()
	if err := json.NewDecoder(body).Decode(v); err != nil {
		return fmt.Errorf("decode the answer of %s: %w", c.At, err)
	}
	return nil
}

// Do makes a request whose answer is only whether it failed.
func (c *Client) Do(ctx context.Context, method, path string) error {
	return c.Get(ctx, method, path, &struct{}{})
}

// newRemote returns a client of another machine's node.
func newRemote(c config.Remote) (*Client, error) {
	pair, pool, err := readIdentity(c.CertFile, c.KeyFile, c.CAFile)
	if err != nil {
		return nil, fmt.Errorf("control.remote: %w", err)
	}
	return OpenAs(c.Address, "", pair, pool), nil
}

// OpenAs returns a client of another machine's node, at host:port, that shows a certificate. The node's own one is of
// the authorities and bears name, or the host of the address where that is empty.
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
