package s3_test

import (
	"context"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"golang.org/x/sys/unix"

	"holdfast/snapshot"
	"holdfast/snapshot/s3"
	"holdfast/snapshot/snapshottest/gateway"
)

// TestCredentialsRenewed uses credentials that the service refuses, until their file is replaced. Nothing is restarted.
func TestCredentialsRenewed(t *testing.T) {
	g := gateway.Start(t, "")
	p := gateway.NewProxy(t, g.URL)
	file := filepath.Join(t.TempDir(), "credentials")
	write := func(id, secret string) {
		must(t, os.WriteFile(file, []byte("[default]\naws_access_key_id="+id+"\naws_secret_access_key="+secret+"\n"), 0o600))
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", file)
	write("nobody", "x")
	s, _ := open(t, g, p.URL)
	wantTrouble(t, s, "check the credentials")
	write(gateway.AccessKey, "wrong")
	operations["Delete"](t.Context(), s)
	wantTrouble(t, s, "SignatureDoesNotMatch")
	write(gateway.AccessKey, gateway.SecretKey)
	operations["Delete"](t.Context(), s)
	must(t, s.Put(t.Context(), "c/get", strings.NewReader("x")))
	p.Set(gateway.Answer(400, "ExpiredToken"))
	wantTrouble(t, s, "renew the credentials")
	p.Set(nil)
	want(t, s, "c/get", "x")
}

// TestTLS uses TLS, with which checksums are sent after the data, not before it.
func TestTLS(t *testing.T) {
	g := gateway.Start(t, "")
	server := httptest.NewTLSServer(gateway.NewProxy(t, g.URL))
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "ca.pem")
	must(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
	t.Setenv("AWS_CA_BUNDLE", file)
	s, bucket := open(t, g, server.URL)
	must(t, s.PutIfAbsent(t.Context(), "absent", []byte("x")))
	want(t, s, "absent", "x")
	must(t, s.Put(t.Context(), "large", noise(large)))
	wantNoise(t, s, "large")
	wantChecksum(t, s, bucket, "large")
}

// TestOtherRegion signs for a region that the service is not in.
func TestOtherRegion(t *testing.T) {
	g := gateway.Start(t, "")
	g.Bucket("bucket")
	s, err := s3.New(t.Context(), "s3://bucket", s3.Config{Endpoint: g.URL, PathStyle: true, Region: "eu-central-1"})
	must(t, err)
	wantTrouble(t, s, "set snapshot.s3.region")
}

// TestKilled kills the gateway during an upload, and starts it again at once or later.
func TestKilled(t *testing.T) {
	g := gateway.Start(t, "")
	s, p, bucket := behind(t, g)
	must(t, s.Put(t.Context(), "a", strings.NewReader("old")))
	dies := func() { g.Kill() }
	if err := s.Put(t.Context(), "a", io.MultiReader(after(noise(17<<20), dies), noise(9<<20))); err == nil {
		t.Error("Put to a gateway that dies: want an error")
	}
	wantTrouble(t, s, "EOF") // from the proxy, as from a load balancer
	g.Run()
	want(t, s, "a", "old")
	if got := uploads(t, s, bucket); got != 1 {
		t.Errorf("uploads left by the crash: want 1, got %d", got)
	}
	must(t, s.Put(t.Context(), "a", after(noise(large), func() {
		up := make(chan struct{})
		p.Set(func(*gateway.Proxy, http.ResponseWriter, *http.Request) bool { <-up; return false })
		g.Kill()
		g.Run()
		close(up)
	})))
	wantNoise(t, s, "a")
}

// TestFullDisk fills the service's disk. The error says so, and the old object is still there. When there is room
// again, everything works.
func TestFullDisk(t *testing.T) {
	if testing.Short() {
		t.Skip("needs an S3 server")
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root, to mount a small filesystem")
	}
	root := t.TempDir()
	if err := unix.Mount("tmpfs", root, "tmpfs", 0, "size=48m"); err != nil {
		t.Skipf("mount a tmpfs: %v", err)
	}
	t.Cleanup(func() { must(t, unix.Unmount(root, 0)) })
	t.Run("full", func(t *testing.T) { // it ends before the filesystem is unmounted
		g := gateway.Start(t, root)
		s, bucket := open(t, g, g.URL)

		must(t, s.Put(t.Context(), "c/a", strings.NewReader("old")))
		filler := filepath.Join(root, bucket, "filler")
		must(t, os.WriteFile(filler, make([]byte, 24<<20), 0o600))
		err := s.Put(t.Context(), "c/a", noise(40<<20))
		if err == nil || !strings.Contains(err.Error(), "make room") {
			t.Errorf("Put of 40 MiB: want advice, got %v", err)
		}
		want(t, s, "c/a", "old")
		if got := uploads(t, s, bucket); got != 0 {
			t.Errorf("uploads left: want 0, got %d", got)
		}
		must(t, os.Remove(filler))
		must(t, s.Put(t.Context(), "c/b", noise(large)))
		wantNoise(t, s, "c/b")
	})
}

// TestVersions puts, replaces and deletes in a versioned bucket, without and with object lock: all versions stay.
func TestVersions(t *testing.T) {
	g := gateway.Start(t, "")
	for name, lock := range map[string]bool{"versioned": false, "locked": true} {
		t.Run(name, func(t *testing.T) {
			s := connect(t, "s3://"+name+"/p", g.URL)
			client, err := s.Client(t.Context())
			must(t, err)
			makeBucket(t, client, name, lock)
			must(t, s.Put(t.Context(), "c/a", strings.NewReader("first")))
			must(t, s.Put(t.Context(), "c/a", noise(large)))
			wantNoise(t, s, "c/a")
			must(t, s.Delete(t.Context(), "c/a"))
			must(t, s.Delete(t.Context(), "c/a"))
			wantGone(t, s, "c/a")
			// S3 takes a name with a delete marker for free, but this gateway does not (see its doc.go). Then at least nobody is
			// told that the name is taken.
			if err := s.PutIfAbsent(t.Context(), "c/a", []byte("x")); errors.Is(err, snapshot.ErrExists) {
				t.Errorf("PutIfAbsent of a deleted name: want no ErrExists, got %v", err)
			}
			must(t, s.PutIfAbsent(t.Context(), "c/b", []byte("x")))
			if err := s.PutIfAbsent(t.Context(), "c/b", []byte("x")); !errors.Is(err, snapshot.ErrExists) {
				t.Errorf("PutIfAbsent of a taken name: want ErrExists, got %v", err)
			}
			must(t, s.Delete(t.Context(), "c/b"))
			wantGone(t, s, "c/b")
			must(t, snapshot.Probe(t.Context(), s))
			out, err := client.ListObjectVersions(t.Context(), &awss3.ListObjectVersionsInput{Bucket: &name, Prefix: aws.String("p/c/")})
			must(t, err)
			if len(out.Versions) != 3 || len(out.DeleteMarkers) < 2 {
				t.Errorf("versions: want 3 and at least 2 delete markers, got %d and %d", len(out.Versions), len(out.DeleteMarkers))
			}
		})
	}
}

func makeBucket(t *testing.T, client *awss3.Client, name string, lock bool) {
	t.Helper()
	_, err := client.CreateBucket(t.Context(), &awss3.CreateBucketInput{Bucket: &name, ObjectLockEnabledForBucket: &lock})
	must(t, err)
	_, err = client.PutBucketVersioning(t.Context(), &awss3.PutBucketVersioningInput{Bucket: &name,
		VersioningConfiguration: &types.VersioningConfiguration{Status: types.BucketVersioningStatusEnabled}})
	must(t, err)
	if !lock {
		return
	}
	_, err = client.PutObjectLockConfiguration(t.Context(), &awss3.PutObjectLockConfigurationInput{Bucket: &name,
		ObjectLockConfiguration: &types.ObjectLockConfiguration{ObjectLockEnabled: types.ObjectLockEnabledEnabled,
			Rule: &types.ObjectLockRule{DefaultRetention: &types.DefaultRetention{Mode: types.ObjectLockRetentionModeGovernance, Days: aws.Int32(1)}}}})
	must(t, err)
}

func wantGone(t *testing.T, s *s3.Store, name string) {
	t.Helper()
	if _, err := s.Get(t.Context(), name); !errors.Is(err, snapshot.ErrNotFound) {
		t.Errorf("Get(%s): want ErrNotFound, got %v", name, err)
	}
	if got, err := s.List(t.Context(), name); err != nil || len(got) != 0 {
		t.Errorf("List(%s): want nothing, got %v, %v", name, got, err)
	}
}

// TestChecksums checks what the service stores.
func TestChecksums(t *testing.T) {
	g := gateway.Start(t, "")
	s, bucket := open(t, g, g.URL)
	for name, size := range map[string]int64{"small": 1000, "large": large} {
		must(t, s.Put(t.Context(), name, noise(size)))
		wantChecksum(t, s, bucket, name)
	}
}

// wantChecksum wants a CRC-32C of the whole object, however it was sent.
func wantChecksum(t *testing.T, s *s3.Store, bucket, name string) {
	t.Helper()
	client, err := s.Client(t.Context())
	must(t, err)
	out, err := client.GetObject(t.Context(), &awss3.GetObjectInput{Bucket: &bucket, Key: aws.String("backups/main/" + name), ChecksumMode: types.ChecksumModeEnabled})
	must(t, err)
	out.Body.Close()
	if sum := aws.ToString(out.ChecksumCRC32C); sum == "" || strings.Contains(sum, "-") || out.ChecksumType != types.ChecksumTypeFullObject {
		t.Errorf("%s: want a CRC-32C of the whole object, got %q of type %s", name, sum, out.ChecksumType)
	}
}

// TestWithoutChecksums is for services that refuse checksums.
func TestWithoutChecksums(t *testing.T) {
	t.Setenv("AWS_REQUEST_CHECKSUM_CALCULATION", "when_required")
	g := gateway.Start(t, "")
	s, bucket := open(t, g, g.URL)
	client, err := s.Client(t.Context())
	must(t, err)
	must(t, s.PutIfAbsent(t.Context(), "absent", []byte("x")))
	for name, size := range map[string]int64{"small": 1000, "large": large} {
		must(t, s.Put(t.Context(), name, noise(size)))
		out, err := client.GetObject(t.Context(), &awss3.GetObjectInput{Bucket: &bucket, Key: aws.String("backups/main/" + name), ChecksumMode: types.ChecksumModeEnabled})
		must(t, err)
		out.Body.Close()
		if aws.ToString(out.ChecksumCRC32C)+aws.ToString(out.ChecksumCRC32) != "" {
			t.Errorf("%s: want no checksum, got one", name)
		}
	}
	wantNoise(t, s, "large")
}

// If the time runs out without an answer, the error says which address does not answer, and why.
func TestTimeIsOver(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	at := "http://" + l.Addr().String()
	must(t, l.Close())
	t.Setenv("AWS_ACCESS_KEY_ID", "x")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "x")
	s, err := s3.New(t.Context(), "s3://bucket/prefix", s3.Config{Endpoint: at, PathStyle: true})
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = s.List(ctx, "")
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want that the time is over", err)
	}
	for _, want := range []string{"s3://bucket/prefix at " + at, "connection refused", "check snapshot.s3.endpoint"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want that it says %q", err, want)
		}
	}
}

// A nameserver that does not answer is not a wrong endpoint, and the text is the same each time: net's has a port of
// this machine.
func TestSilentNameserver(t *testing.T) {
	s, err := s3.New(t.Context(), "s3://bucket/x", s3.Config{Region: "eu-west-1"})
	must(t, err)
	silent := &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Name: "b.s3.example", Server: "10.0.0.2:53",
		Err: "read udp 10.0.0.1:36678->10.0.0.2:53: i/o timeout", IsTimeout: true}}
	s.Undialed(silent)
	ended, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	const text = "look up b.s3.example: the nameserver did not answer in time: "
	sent := &url.Error{Op: "Get", URL: "https://b.s3.example", Err: silent}
	for got, want := range map[string]string{
		s.Explain(t.Context(), sent).Error(): text + "check the network between here and the nameserver",
		s.Explain(ended, silent).Error():     "the last attempt: " + text + "check snapshot.s3.endpoint",
	} {
		if !strings.Contains(got, want) || strings.Contains(got, "36678") {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
