package metrics

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Connections that send nothing, half a request, or nothing more after one, keep nobody out: no scraper waits until
// they are cut.
func TestSlowClientsKeepNobodyOut(t *testing.T) {
	for name, say := range map[string]func(net.Conn) error{
		"nothing":        func(net.Conn) error { return nil },
		"half a request": func(c net.Conn) error { _, err := io.WriteString(c, "GET /metrics HTTP/1.1\r\nX-Slow: "); return err },
		"one request": func(c net.Conn) error {
			if _, err := io.WriteString(c, "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
				return err
			}
			res, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err == nil {
				_, err = io.Copy(io.Discard, res.Body)
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			url := serve(t, prometheus.NewRegistry(), callbacks{})
			for range 200 {
				conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				if err := say(conn); err != nil {
					t.Fatal(err)
				}
			}
			client := &http.Client{Timeout: headerTimeout - time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
			for _, path := range []string{"/metrics", "/livez"} {
				res, err := client.Get(url + path)
				if err != nil {
					t.Fatalf("%s beside them: %v", path, err)
				}
				res.Body.Close()
			}
		})
	}
}

// The connection that has waited longest gives way; one that is being answered never does.
func TestCrowd(t *testing.T) {
	c := newConnLimit(nil, 3)
	conns := make([]net.Conn, 6)
	for i := range conns {
		ours, theirs := net.Pipe()
		defer theirs.Close()
		defer ours.Close()
		conns[i] = ours
	}
	closed := func(i int) bool {
		conns[i].SetReadDeadline(time.Now())
		_, err := conns[i].Read(make([]byte, 1))
		return err == io.ErrClosedPipe
	}
	for i := range 3 {
		if !c.admit(conns[i]) {
			t.Fatalf("connection %d: want that there is room", i)
		}
	}
	c.observe(conns[0], http.StateActive)
	if !c.admit(conns[3]) || closed(0) || !closed(1) || closed(2) {
		t.Error("want that the second gives way to the fourth: the first is being answered")
	}
	c.observe(conns[1], http.StateClosed) // the server has noticed
	c.observe(conns[0], http.StateIdle)   // now it has waited for the shortest time
	if !c.admit(conns[4]) || closed(0) || !closed(2) {
		t.Error("want that the third gives way to the fifth")
	}
	for _, i := range []int{0, 3, 4} {
		c.observe(conns[i], http.StateActive)
	}
	if c.admit(conns[5]) {
		t.Error("want no room where all are being answered")
	}
	c.observe(conns[3], http.StateClosed)
	if !c.admit(conns[5]) || len(c.open) != 3 || len(c.waiting) != 1 {
		t.Errorf("want room again, got %d connections, %d waiting", len(c.open), len(c.waiting))
	}
}
