package ec2test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
)

// from returns a client whose connections come from this address.
func from(t *testing.T, ip string) *http.Client {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}
	transport := &http.Transport{DialContext: d.DialContext}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// An instance that only knows the address of the metadata service learns who it is and where, and gets credentials by
// which EC2 recognises it ("Use the Instance Metadata Service", "IAM roles for EC2").
func TestMetadata(t *testing.T) {
	f := open(t, Options{})
	for _, key := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_REGION", "AWS_CA_BUNDLE", "AWS_EC2_METADATA_DISABLED"} {
		t.Setenv(key, "")
	}
	none := t.TempDir() + "/none"
	t.Setenv("AWS_CONFIG_FILE", none)
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", none)
	t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", f.server.URL)

	for _, id := range []string{"i-1", "i-2"} {
		i, _ := f.Instance(id)
		mine := from(t, i.PrivateIP)
		m := imds.New(imds.Options{Endpoint: f.server.URL, HTTPClient: mine})
		d, err := m.GetInstanceIdentityDocument(t.Context(), nil)
		ok(t, err)
		if d.InstanceID != id || d.Region != "eu-test-1" || d.AvailabilityZone != "eu-test-1a" || d.AccountID != account || d.PrivateIP != i.PrivateIP {
			t.Errorf("got %+v, want that of %s", d.InstanceIdentityDocument, id)
		}
		zone, err := m.GetMetadata(t.Context(), &imds.GetMetadataInput{Path: "placement/availability-zone"})
		ok(t, err)
		if got := body(t, zone.Content); got != "eu-test-1a" {
			t.Errorf("got zone %s, want eu-test-1a", got)
		}
		c, err := config.LoadDefaultConfig(t.Context(), config.WithHTTPClient(mine), config.WithRegion("eu-test-1"))
		ok(t, err)
		keys, err := c.Credentials.Retrieve(t.Context())
		if err != nil || keys.AccessKeyID != AccessKey(id) || !keys.CanExpire {
			t.Errorf("got %+v and %v, want the key %s", keys, err, AccessKey(id))
		}
		_, err = ec2.NewFromConfig(c, func(o *ec2.Options) { o.BaseEndpoint = &f.server.URL }).DescribeVolumes(t.Context(), &ec2.DescribeVolumesInput{})
		ok(t, err)
		if got := f.Calls("DescribeVolumes", id); got != 1 {
			t.Errorf("got %d calls of %s, want 1", got, id)
		}
	}
}

func body(t *testing.T, r io.ReadCloser) string {
	t.Helper()
	defer r.Close()
	text, err := io.ReadAll(r)
	ok(t, err)
	return string(text)
}

// Version 2 only: there is no answer without a token, with another instance's token, or through a proxy.
func TestMetadataRefuses(t *testing.T) {
	f := open(t, Options{})
	one := httptest.NewServer(f.IMDS("i-1"))
	t.Cleanup(one.Close)
	two := httptest.NewServer(f.IMDS("i-2"))
	t.Cleanup(two.Close)
	ask := func(method, url string, header ...string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
		ok(t, err)
		for n := 0; n < len(header); n += 2 {
			r.Header.Set(header[n], header[n+1])
		}
		answer, err := f.http.Do(r)
		ok(t, err)
		return answer.StatusCode, body(t, answer.Body)
	}
	_, token := ask("PUT", one.URL+"/latest/api/token", ttlHeader, "60")
	for _, test := range []struct {
		method, url string
		header      []string
		want        int
	}{
		{"PUT", one.URL + "/latest/api/token", nil, 400},
		{"PUT", one.URL + "/latest/api/token", []string{ttlHeader, "21601"}, 400},
		{"PUT", one.URL + "/latest/api/token", []string{ttlHeader, "60", "X-Forwarded-For", "10.0.0.1"}, 403},
		{"GET", one.URL + "/latest/meta-data/instance-id", nil, 401},
		{"GET", one.URL + "/latest/meta-data/instance-id", []string{tokenHeader, "guess"}, 401},
		{"GET", two.URL + "/latest/meta-data/instance-id", []string{tokenHeader, token}, 401},
		{"GET", one.URL + "/latest/meta-data/instance-id", []string{tokenHeader, token}, 200},
		{"GET", one.URL + "/latest/meta-data/none", []string{tokenHeader, token}, 404},
	} {
		if got, _ := ask(test.method, test.url, test.header...); got != test.want {
			t.Errorf("%s %s %v: got %d, want %d", test.method, test.url, test.header, got, test.want)
		}
	}
	ok(t, f.Inject(Fault{Action: IMDS, Kind: Fail, Times: 1}))
	if got, _ := ask("PUT", one.URL+"/latest/api/token", ttlHeader, "60"); got != 500 {
		t.Errorf("got %d while the metadata service fails, want 500", got)
	}
	ok(t, f.TerminateInstance("i-1"))
	if answer, err := f.http.Get(one.URL + "/latest/meta-data/instance-id"); err == nil {
		answer.Body.Close()
		t.Errorf("got %s for a terminated instance, want no answer", answer.Status)
	}
}

// An operator ends an instance by HTTP.
func TestTerminateByHTTP(t *testing.T) {
	f := open(t, Options{})
	for text, want := range map[string]int{`{"ID": "i-1"}`: 200, `{"ID": "i-none"}`: 409, `i-1`: 400} {
		answer, err := f.http.Post(f.server.URL+"/_control/terminate", "application/json", strings.NewReader(text))
		ok(t, err)
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("%s: got %s, want %d", text, answer.Status, want)
		}
	}
	if i, _ := f.Instance("i-1"); i.State != terminated {
		t.Errorf("got %s, want it terminated", i.State)
	}
}

// Only the instance itself learns what is planned for it, as long as it is planned.
func TestMetadataThatIsSet(t *testing.T) {
	f := open(t, Options{})
	get := func(id string) (string, error) {
		i, _ := f.Instance(id)
		m := imds.New(imds.Options{Endpoint: f.server.URL, HTTPClient: from(t, i.PrivateIP)})
		out, err := m.GetMetadata(t.Context(), &imds.GetMetadataInput{Path: "autoscaling/target-lifecycle-state"})
		if err != nil {
			return "", err
		}
		return body(t, out.Content), nil
	}
	ok(t, f.SetMetadata("i-1", "autoscaling/target-lifecycle-state", "InService"))
	if got, err := get("i-1"); got != "InService" || err != nil {
		t.Errorf("got %q, %v, want what was set", got, err)
	}
	if got, err := get("i-2"); err == nil {
		t.Errorf("another instance: got %q, want 404", got)
	}
	ok(t, f.SetMetadata("i-1", "autoscaling/target-lifecycle-state", ""))
	if got, err := get("i-1"); err == nil {
		t.Errorf("removed: got %q, want 404", got)
	}
	if err := f.SetMetadata("i-9", "x", "y"); err == nil {
		t.Error("no such instance: got no error")
	}
}
