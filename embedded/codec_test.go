package embedded

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// etcd's metrics count the bytes of requests and answers, with its own codec and with ours.
func TestCountsBytesOfClients(t *testing.T) {
	counted := func(name string) float64 {
		t.Helper()
		families, err := prometheus.DefaultGatherer.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() == name {
				return f.GetMetric()[0].GetCounter().GetValue()
			}
		}
		t.Fatalf("there is no %s", name)
		return 0
	}
	const sent, received = "etcd_network_client_grpc_sent_bytes_total", "etcd_network_client_grpc_received_bytes_total"
	n := found(t, "a")[0]
	c := n.client(t)
	value := strings.Repeat("v", 100_000)
	s, r := counted(sent), counted(received)
	if _, err := c.Put(t.Context(), "k", value); err != nil {
		t.Fatal(err)
	}
	if s, r := counted(sent)-s, counted(received)-r; s < 10 || s > 1000 || r < 100_000 || r > 101_000 {
		t.Errorf("a put counts %g bytes sent, %g received", s, r)
	}
	s, r = counted(sent), counted(received)
	resp, err := c.Get(t.Context(), "k")
	if err != nil || len(resp.Kvs) != 1 || string(resp.Kvs[0].Value) != value {
		t.Fatalf("got %v, %v", resp, err)
	}
	if s, r := counted(sent)-s, counted(received)-r; s < 100_000 || s > 101_000 || r < 1 || r > 1000 {
		t.Errorf("a read counts %g bytes sent, %g received", s, r)
	}
}
