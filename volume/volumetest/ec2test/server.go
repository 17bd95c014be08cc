package ec2test

import (
	"context"
	"errors"
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

// Config is that of a stand-in that runs as a process of its own.
type Config struct {
	Listen string // address, such as 10.9.0.1:7575
	Region string
	// Directory is where disks and device roots are kept: an absolute path, best an empty directory.
	// "": attaching gives no device.
	Directory string
	MiBPerGiB int64 // of Loops
	// Delay is how long a volume is attaching or detaching, and an instance changes its state.
	Delay time.Duration
	Log   func(format string, args ...any)
	// Ready is called with the URL when it listens.
	Ready func(url string)
}

// Serve runs a cloud until ctx ends, and then removes everything it made.
func Serve(ctx context.Context, c Config) (err error) {
	o := Options{Region: c.Region, AttachDelay: c.Delay, DetachDelay: c.Delay, InstanceDelay: c.Delay, Log: c.Log}
	if c.Directory != "" {
		loops, err := NewLoops(c.Directory, c.MiBPerGiB)
		if err != nil {
			return err
		}
		o.Devices = loops
	}
	cloud := New(o)
	defer func() { err = errors.Join(err, cloud.Close()) }()
	s, err := Listen(cloud, c.Listen)
	if err != nil {
		return err
	}
	if c.Ready != nil {
		c.Ready(s.URL)
	}
	<-ctx.Done()
	return s.Close()
}
