package metrics

import (
	"net"
	"net/http"
	"slices"
	"sync"
)

// connLimit limits the connections of a server. A new one beyond the limit replaces the one that has kept the server
// waiting longest for a request. So clients that open connections and send nothing cannot keep out a scraper, which
// sends its request at once. If all connections are being answered, the new one is closed.
type connLimit struct {
	net.Listener
	most int

	mu      sync.Mutex
	open    map[net.Conn]bool // whether the server waits for its request
	waiting []net.Conn        // connections for which the server waits, the longest first
}

func newConnLimit(ln net.Listener, most int) *connLimit {
	return &connLimit{Listener: ln, most: most, open: map[net.Conn]bool{}}
}

func (c *connLimit) Accept() (net.Conn, error) {
	for {
		conn, err := c.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if c.admit(conn) {
			return conn, nil
		}
		conn.Close()
	}
}

// admit makes room for a connection and records it, or returns false.
func (c *connLimit) admit(conn net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.open) >= c.most {
		if len(c.waiting) == 0 {
			return false
		}
		c.waiting[0].Close() // the server notices and forgets it
		c.forget(c.waiting[0])
	}
	c.open[conn] = true
	c.waiting = append(c.waiting, conn)
	return true
}

// observe is for http.Server.ConnState.
func (c *connLimit) observe(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ours := c.open[conn]; !ours { // it was replaced
		return
	}
	switch state {
	case http.StateActive: // its first bytes have come; the server limits the time for the rest
		c.leave(conn)
		c.open[conn] = false
	case http.StateIdle:
		c.leave(conn)
		c.open[conn] = true
		c.waiting = append(c.waiting, conn)
	case http.StateClosed, http.StateHijacked:
		c.forget(conn)
	}
}

func (c *connLimit) forget(conn net.Conn) {
	c.leave(conn)
	delete(c.open, conn)
}

// leave removes a connection from waiting.
func (c *connLimit) leave(conn net.Conn) {
	c.waiting = slices.DeleteFunc(c.waiting, func(w net.Conn) bool { return w == conn })
}
