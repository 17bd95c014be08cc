package cmd

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"holdfast/cmd/config"
	"io"
	"net"
	"net/http"
)

// client talks to one node.
type client struct {
	at   string // the socket, or host:port of another machine
	base string // of URLs
	hint string // what to do when nobody answers
	http http.Client
}

// errUnreachable is wrapped when no node answers on the socket.
var errUnreachable = errors.New("no node answers")

// newClient returns a client of the node on this machine.
func newClient(socket string) *client {
	var d net.Dialer
	return &client{at: socket, base: "http://holdfast", hint: "is holdfast running here? (--config FILE or --control.socket says which node is meant)",
		http: http.Client{Transport: &http.Transport{
			DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return d.DialContext(ctx, "unix", socket) },
			DisableKeepAlives: true,
		}}}
}

// openClient returns a client of the node that the configuration means.
func openClient(c config.Control) (*client, error) {
	if c.Remote.Address != "" {
		return newRemoteClient(c.Remote)
	}
	return newClient(c.Socket), nil
}

// call sends a request and returns the body of a good answer, which the caller closes.
func (c *client) call(ctx context.Context, method, path string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%w on %s: %w; %s", errUnreachable, c.at, errors.Unwrap(err), c.hint)
	}
	if resp.StatusCode == http.StatusOK {
		return resp.Body, nil
	}
	defer resp.Body.Close()
	var e controlError
	if err := json.NewDecoder(resp.Body).Decode(&e); err != nil || e.Error == "" {
		return nil, fmt.Errorf("the node on %s answered %s", c.at, resp.Status)
	}
	return nil, errors.New(e.Error)
}

// get asks and decodes the answer into v.
func (c *client) get(ctx context.Context, method, path string, v any) error {
	body, err := c.call(ctx, method, path)
	if err != nil {
		return err
	}
	defer body.Close()
	if err := json.NewDecoder(body).Decode(v); err != nil {
		return fmt.Errorf("decode the answer of %s: %w", c.at, err)
	}
	return nil
}

// newRemoteClient returns a client of another machine's node.
func newRemoteClient(c config.Remote) (*client, error) {
	pair, pool, err := readIdentity(c.CertFile, c.KeyFile, c.CAFile)
	if err != nil {
		return nil, fmt.Errorf("control.remote: %w", err)
	}
	return &client{at: c.Address, base: "https://" + c.Address, hint: "does that node's control.listen say so, and is it reached from here?",
		http: http.Client{Transport: &http.Transport{
			TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, RootCAs: pool},
			TLSHandshakeTimeout: controlHeaderTime,
			DisableKeepAlives:   true,
		}}}, nil
}
