package ec2test

import (
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// Server is a listening Cloud. Closing it is an outage in which connections are refused: the Cloud stays
// as it is, and can be listened for again at the same address.
type Server struct {
	URL string // http://address:port, of EC2 and of the metadata service

	server *http.Server
	done   sync.WaitGroup
}

// Listen serves a Cloud at an address such as 127.0.0.1:0.
func Listen(c *Cloud, address string) (*Server, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for EC2 requests: %w", err)
	}
	s := &Server{URL: "http://" + l.Addr().String(), server: &http.Server{Handler: c, ReadHeaderTimeout: time.Minute}}
	s.done.Go(func() { _ = s.server.Serve(l) })
	return s, nil
}

// Close breaks all connections.
func (s *Server) Close() error {
	err := s.server.Close()
	s.done.Wait()
	return err
}
