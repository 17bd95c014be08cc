package ebs

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"holdfast/volume"
)

// metadata is a metadata service of version 2.
type metadata struct {
	URL       string
	documents atomic.Int32 // how often it was read
	down      atomic.Bool
	v1        atomic.Bool // refuses tokens, and answers without one
}

func newMetadata(t *testing.T) *metadata {
	t.Helper()
	m := &metadata{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case m.down.Load():
			http.Error(w, "down", http.StatusServiceUnavailable)
		case r.URL.Path == "/latest/api/token" && m.v1.Load():
			http.Error(w, "no such thing", http.StatusNotFound)
		case r.URL.Path == "/latest/api/token" && r.Method == http.MethodPut:
			w.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "21600")
			fmt.Fprint(w, "imds-token")
		case !m.v1.Load() && r.Header.Get("X-Aws-Ec2-Metadata-Token") != "imds-token":
			http.Error(w, "no token", http.StatusUnauthorized)
		case r.URL.Path == "/latest/dynamic/instance-identity/document":
			m.documents.Add(1)
			fmt.Fprint(w, `{"accountId":"123456789012","instanceId":"i-0abc","region":"eu-test-1","availabilityZone":"eu-test-1b"}`)
		case r.URL.Path == "/latest/meta-data/iam/security-credentials/":
			fmt.Fprint(w, "node")
		case r.URL.Path == "/latest/meta-data/iam/security-credentials/node":
			fmt.Fprintf(w, `{"Code":"Success","Type":"AWS-HMAC","AccessKeyId":"ASIAROLE","SecretAccessKey":%q,"Token":%q,"Expiration":%q}`,
				testSecret, testToken, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	m.URL = server.URL
	return m
}

func TestIdentityIsReadOnce(t *testing.T) {
	m := newMetadata(t)
	e := newTestEC2(t, Config{MetadataEndpoint: m.URL}, nil)
	want := Self{Instance: "i-0abc", Region: "eu-test-1", Zone: "eu-test-1b", Account: "123456789012"}
	for range 2 {
		if got, err := e.Identity(t.Context()); got != want || err != nil {
			t.Fatalf("got %+v, %v, want %+v", got, err, want)
		}
	}
	if got := m.documents.Load(); got != 1 {
		t.Errorf("the document was read %d times, want once", got)
	}
}

func TestIdentityAsConfigured(t *testing.T) {
	m := newMetadata(t)
	e := newTestEC2(t, Config{Instance: "i-1", Region: "r", Zone: "r-a", MetadataEndpoint: m.URL}, nil)
	if got, err := e.Identity(t.Context()); got != (Self{Instance: "i-1", Region: "r", Zone: "r-a"}) || err != nil {
		t.Errorf("got %+v, %v, want what is configured", got, err)
	}
	if got := m.documents.Load(); got != 0 {
		t.Errorf("the document was read %d times, want never", got)
	}
	e = newTestEC2(t, Config{Zone: "eu-test-1z", MetadataEndpoint: m.URL}, nil)
	if got, err := e.Identity(t.Context()); got.Zone != "eu-test-1z" || got.Instance != "i-0abc" || err != nil {
		t.Errorf("got %+v, %v, want the configured zone and the rest from the document", got, err)
	}
}

func TestIdentityUnavailable(t *testing.T) {
	m := newMetadata(t)
	for name, set := range map[string]*atomic.Bool{"down": &m.down, "version 1 only": &m.v1} {
		t.Run(name, func(t *testing.T) {
			set.Store(true)
			e := newTestEC2(t, Config{Region: "eu-test-1", MetadataEndpoint: m.URL}, nil)
			_, err := e.Identity(t.Context())
			if err == nil {
				t.Fatal("got no error")
			}
			for _, want := range []string{"set volume.ebs.instance, volume.ebs.zone,", "hop limit", "IMDSv2"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %q, want it to say %q", err, want)
				}
			}
			if n := m.documents.Load(); n != 0 {
				t.Errorf("the document was read %d times without a token", n)
			}
			set.Store(false)
			if got, err := e.Identity(t.Context()); got.Instance != "i-0abc" || err != nil {
				t.Errorf("later: got %+v, %v, want the identity", got, err)
			}
			m.documents.Store(0)
		})
	}
}

// Region and credentials come from the metadata service if nothing else provides them. They are fetched when they are
// needed, not when the client is made.
func TestRegionAndCredentialsOfTheInstance(t *testing.T) {
	m := newMetadata(t)
	m.down.Store(true)
	sent := make(chan string, 1)
	f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		sent <- r.Header.Get("Authorization")
		accept(w, r, "")
	})
	environment(t)
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	e, err := NewEC2(t.Context(), Config{Endpoint: f.URL, MetadataEndpoint: m.URL}, nil, zap.NewNop())
	if err != nil {
		t.Fatalf("NewEC2 while the metadata service is down: %v", err)
	}
	if err := changing[opAttach](t.Context(), e); MeaningOf(err) != NotNow || !strings.Contains(err.Error(), "set volume.ebs.region or AWS_REGION, or let") {
		t.Errorf("got %v, want it not sent for want of volume.ebs.region", err)
	}
	m.down.Store(false)
	if err := changing[opAttach](t.Context(), e); err != nil {
		t.Fatal(err)
	}
	authorization := <-sent
	if want := "Credential=ASIAROLE/"; !strings.Contains(authorization, want) || !strings.Contains(authorization, "/eu-test-1/ec2/") {
		t.Errorf("got %q, want %s and the region of the instance", authorization, want)
	}
}

func TestIdentityWaitsNoLongerThanItsContext(t *testing.T) {
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop) })
	f := newFake(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-stop:
		}
	})
	e := newTestEC2(t, Config{MetadataEndpoint: f.URL}, nil)
	if err := e.asking.Acquire(t.Context(), 1); err != nil { // someone else is asking
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := e.Identity(ctx); err == nil {
		t.Error("got no error while it is not known")
	}
	e.asking.Release(1)
	start := time.Now()
	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := e.Identity(ctx); err == nil || time.Since(start) > 2*time.Second {
		t.Errorf("got %v after %s", err, time.Since(start))
	}
}

// A proxy for AWS is not used for the metadata service, which would answer with the proxy's identity or not at all. Go
// reads HTTP_PROXY only once per process, so a child process asks.
func TestIdentityIsNotAskedOfAProxy(t *testing.T) {
	const child = "PROXY_TEST_CHILD"
	if proxy := os.Getenv(child); proxy != "" {
		e := newTestEC2(t, Config{MetadataEndpoint: "http://metadata.invalid"}, nil)
		t.Setenv("HTTP_PROXY", proxy)
		if got, err := e.Identity(t.Context()); err == nil {
			t.Errorf("got %+v of a service that is not there", got)
		}
		return
	}
	var asked atomic.Int32
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusForbidden)
	}))
	t.Cleanup(proxy.Close)
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), child+"="+proxy.URL, "NO_PROXY=", "no_proxy=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("the proxy was asked %d times", n)
	}
}

// AWS_REGION may name another region than this machine's. The doctor reports it.
func TestDoctorSeesTheWrongRegion(t *testing.T) {
	for _, test := range []struct {
		me   Self
		want bool
	}{
		{Self{Region: "eu-west-1", Zone: "eu-west-1a"}, true},
		{Self{Region: "us-east-1", Zone: "us-east-1-bos-1a"}, true},
		{Self{Region: "eu-west-1", Zone: "us-east-1a"}, false},
		{Self{Region: "eu-west-1", Zone: "eu-west-2a"}, false},
	} {
		if got := test.me.inRegion(); got != test.want {
			t.Errorf("%+v: got %t, want %t", test.me, got, test.want)
		}
	}
	m := newMetadata(t) // it says eu-test-1
	f := newFake(t, func(w http.ResponseWriter, r *http.Request) { refuse(w, 412, "DryRunOperation", "ok") })
	said := ""
	cfg := Default()
	cfg.DeviceRoot = t.TempDir()
	d := Doctor{Config: cfg, Cluster: "main", Slots: []string{"a"},
		Cloud:   newTestEC2(t, Config{Region: "us-east-1", Endpoint: f.URL, MetadataEndpoint: m.URL}, nil),
		Volumes: func(context.Context) ([]volume.Info, error) { return nil, nil },
		Tell: func(j Judgement, text string) {
			if j == Missing {
				said += text + "\n"
			}
		}}
	d.Examine(t.Context())
	if !strings.Contains(said, "identity: instance i-0abc is in zone eu-test-1b, which region us-east-1 does not have") {
		t.Errorf("got %q", said)
	}
}
