package metrics

import (
	"net"
	"net/http"
	"slices"
	"sync"
)

// connLimit bounds the connections of a server. A new one beyond the bound takes the place of the one that has kept the
// server waiting for the longest time, for its first request or its next: anyone who opens connections and says nothing
// must not keep out a scraper, which speaks at once. Where all are being answered the new one is closed.
type connLimit struct {
	net.Listener
	most int

	mu      sync.Mutex
	open    map[net.Conn]bool // whether it keeps us waiting
	waiting []net.Conn        // those, the longest first
}

func newConnLimit(ln net.Listener, most int) *connLimit {
	return &connLimit{Listener: ln, most: most, open: map[net.Conn]bool{}}
}

// Accept implements net.Listener.
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

// admit makes room for a connection and notes it, or says that there is none.
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

// observe is for http.Server's ConnState.
func (c *connLimit) observe(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ours := c.open[conn]; !ours { // it had to give way
		return
	}
	switch state {
	case http.StateActive: // its first bytes have come; how long the rest may take is the server's to bound
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

// leave takes a connection from those that keep us waiting.
func (c *connLimit) leave(conn net.Conn) {
	c.waiting = slices.DeleteFunc(c.waiting, func(w net.Conn) bool { return w == conn })
}
