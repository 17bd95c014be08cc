package s3_test

import (
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"holdfast/snapshot"
	"holdfast/snapshot/s3"
	"holdfast/snapshot/snapshottest"
	"holdfast/snapshot/snapshottest/gateway"
)

// quiet is the log of servers that are expected to complain.
var quiet = log.New(io.Discard, "", 0)

func TestMain(m *testing.M) {
	for _, kv := range gateway.Env() {
		k, v, _ := strings.Cut(kv, "=")
		os.Setenv(k, v)
	}
	os.Exit(m.Run())
}

var buckets atomic.Int32

// open returns a store in a new bucket of the gateway, through url.
func open(t *testing.T, g *gateway.Gateway, url string) (*s3.Store, string) {
	t.Helper()
	bucket := fmt.Sprintf("bucket-%d", buckets.Add(1))
	g.Bucket(bucket)
	return connect(t, "s3://"+bucket+"/backups/main", url), bucket
}

func connect(t *testing.T, store, endpoint string) *s3.Store {
	t.Helper()
	s, err := s3.New(t.Context(), store, s3.Config{Endpoint: endpoint, PathStyle: true})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStore(t *testing.T) {
	g := gateway.Start(t, "")
	snapshottest.Run(t, func(t *testing.T) snapshot.Store {
		s, _ := open(t, g, g.URL)
		return s
	})
}
