package s3_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"holdfast/snapshot"
	"holdfast/snapshot/s3"
	"holdfast/snapshot/snapshottest/gateway"
)

// operations are the methods of a store, each with a different object name.
var operations = map[string]func(ctx context.Context, s *s3.Store) error{
	"Put": func(ctx context.Context, s *s3.Store) error {
		return s.Put(ctx, "c/put", strings.NewReader("x"))
	},
	"PutIfAbsent": func(ctx context.Context, s *s3.Store) error { return s.PutIfAbsent(ctx, "c/absent", []byte("x")) },
	"Get": func(ctx context.Context, s *s3.Store) error {
		_, err := read(ctx, s, "c/get")
		return err
	},
	"List": func(ctx context.Context, s *s3.Store) error {
		objects, err := s.List(ctx, "")
		if err == nil && len(objects) == 0 {
			err = errors.New("an empty list")
		}
		return err
	},
	"Delete": func(ctx context.Context, s *s3.Store) error { return s.Delete(ctx, "c/delete") },
}

func read(ctx context.Context, s snapshot.Store, name string) (string, error) {
	r, err := s.Get(ctx, name)
	if err != nil {
		return "", err
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	return string(b), err
}

// wantTrouble checks that all operations return an error that contains want and says nothing about what is stored.
func wantTrouble(t *testing.T, s *s3.Store, want string) {
	t.Helper()
	for name, do := range operations {
		err := do(t.Context(), s)
		if err == nil || errors.Is(err, snapshot.ErrNotFound) || errors.Is(err, snapshot.ErrExists) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: want an error with %q, got %v", name, want, err)
		}
		if err != nil && strings.Contains(err.Error(), "operation error S3") {
			t.Errorf("%s: want no preamble of the SDK, got %v", name, err)
		}
	}
}

// hurried returns a store with short timeouts.
func hurried(t *testing.T, store, endpoint string) *s3.Store {
	t.Helper()
	s := connect(t, store, endpoint)
	s.Hurry(time.Second)
	return s
}

// TestAnswers gives every operation every error answer of a service.
func TestAnswers(t *testing.T) {
	for _, c := range []struct {
		status     int
		code, want string
	}{
		{404, "NoSuchBucket", "create the bucket, or correct snapshot.store"},
		{403, "AccessDenied", "docs/s3.md"},
		{403, "SomeNewCode", "docs/s3.md"},
		{403, "InvalidAccessKeyId", "check the credentials"},
		{403, "SignatureDoesNotMatch", "check the secret key"},
		{403, "RequestTimeTooSkewed", "clock"},
		{400, "ExpiredToken", "renew the credentials"},
		{400, "KMS.DisabledException", "enable the KMS key"},
		{400, "AuthorizationHeaderMalformed", "snapshot.s3.region"},
		{301, "PermanentRedirect", "snapshot.s3.region"},
		{404, "NotFound", "snapshot.s3.endpoint"},
		{409, "ConditionalRequestConflict", "ConditionalRequestConflict"},
		{500, "InternalError", "try again later"},
		{501, "NotImplemented", "docs/s3.md"},
		{503, "SlowDown", "throttling"},
		{503, "ServiceUnavailable", "overloaded"},
		{429, "TooManyRequests", "throttling"},
		{507, "InsufficientStorage", "make room"},
	} {
		t.Run(c.code, func(t *testing.T) {
			t.Parallel()
			p := gateway.NewProxy(t, "")
			p.Set(gateway.Answer(c.status, c.code))
			wantTrouble(t, hurried(t, "s3://bucket", p.URL), c.want)
		})
	}
}

// TestFull has the answers of services without room: a keeper prunes then, as it does when a disk is full.
func TestFull(t *testing.T) {
	for code, want := range map[string]bool{"QuotaExceeded": true, "XMinioStorageFull": true, "SlowDown": false} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			p := gateway.NewProxy(t, "")
			p.Set(gateway.Answer(http.StatusInsufficientStorage, code))
			err := operations["Put"](t.Context(), hurried(t, "s3://bucket", p.URL))
			if err == nil || errors.Is(err, syscall.ENOSPC) != want {
				t.Errorf("want that it is full: %t, got %v", want, err)
			}
		})
	}
}

// TestOtherAnswers has the answers of URLs that are not an S3 service.
func TestOtherAnswers(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"404 without a body":  func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) },
		"404 of a web server": http.NotFound,
		"a web page for a 403": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(403)
			io.WriteString(w, "<html><body>Forbidden</body></html>")
		},
		"502 of a load balancer": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(502) },
		"garbage":                func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500); io.WriteString(w, "\x00<<") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(answer)
			defer server.Close()
			wantTrouble(t, hurried(t, "s3://bucket", server.URL), "s3://bucket")
		})
	}
}

// TestOtherSuccess has the answers with status 200 of URLs that are not an S3 service. Only a deletion cannot be told
// from one that was made, because its answer is empty.
func TestOtherSuccess(t *testing.T) {
	for name, body := range map[string]string{
		"nothing": "", "a web page": "<html><body>Welcome</body></html>",
		"an error": "<Error><Code>InternalError</Code></Error>",
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			io.WriteString(w, body)
		}))
		defer server.Close()
		s := hurried(t, "s3://bucket", server.URL)
		for method, do := range operations {
			err := do(t.Context(), s)
			switch {
			case method == "Delete":
			case err == nil || err.Error() == "an empty list":
				t.Errorf("%s, answered with %s: want an error, got %v", method, name, err)
			case name != "an error" && !strings.Contains(err.Error(), server.URL+": the answer is a success, and not one of"):
				t.Errorf("%s, answered with %s: got %v", method, name, err)
			}
		}
		// More than one part.
		if err := s.Put(t.Context(), "a", noise(large)); err == nil {
			t.Errorf("Put of %d bytes, answered with %s: want an error", large, name)
		}
	}
}

func TestWrongRegion(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Amz-Bucket-Region", "eu-central-1")
		w.WriteHeader(301)
	}))
	defer server.Close()
	wantTrouble(t, hurried(t, "s3://bucket", server.URL), "set snapshot.s3.region: eu-central-1")
}

func TestUntrustedCertificate(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = quiet
	server.StartTLS()
	defer server.Close()
	wantTrouble(t, hurried(t, "s3://bucket", server.URL), "AWS_CA_BUNDLE")
}

func TestNobodyListens(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	wantTrouble(t, hurried(t, "s3://bucket", "http://"+l.Addr().String()), "connection refused")
	wantTrouble(t, hurried(t, "s3://bucket", "http://nowhere.invalid"), "snapshot.s3.endpoint")
}

func TestNoCredentials(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	wantTrouble(t, hurried(t, "s3://bucket", "http://127.0.0.1:1"), "no credentials were found")
}

func TestNoRegion(t *testing.T) {
	t.Setenv("AWS_REGION", "")
	wantTrouble(t, hurried(t, "s3://bucket", ""), "set snapshot.s3.region")
}

// TestSilence connects to a service that sends nothing, in the middle of a request or before it.
func TestSilence(t *testing.T) {
	t.Parallel()
	p := gateway.NewProxy(t, "")
	p.Set(gateway.Stall)
	s := connect(t, "s3://bucket", p.URL)
	s.Hurry(50 * time.Millisecond)
	start := time.Now()
	wantTrouble(t, s, "nothing moved on the connection for 50ms")
	// A request that is larger than all buffers, so that sending stalls.
	if err := s.Put(t.Context(), "a", strings.NewReader(strings.Repeat("x", 7<<20))); err == nil || !strings.Contains(err.Error(), "nothing moved") {
		t.Errorf("Put: want an error about silence, got %v", err)
	}
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("all operations together: want little more than 50ms an attempt, got %s", took)
	}
}

// TestCrawl connects to a service that sends its answers byte by byte, and so is never silent.
func TestCrawl(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"List", "Get"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("ETag", "x")
				for r.Context().Err() == nil {
					io.WriteString(w, " ")
					w.(http.Flusher).Flush()
					time.Sleep(5 * time.Millisecond) // the fault itself, not a synchronisation
				}
			}))
			defer server.Close()
			s := connect(t, "s3://bucket", server.URL)
			s.Hurry(50 * time.Millisecond)
			err := operations[method](t.Context(), s)
			if err == nil || !strings.Contains(err.Error(), "less than 65536 bytes in 250ms") {
				t.Errorf("want an error about the crawl, got %v", err)
			}
		})
	}
}

// TestContextEndsWaiting ends the context while an operation waits for an answer, or to try again.
func TestContextEndsWaiting(t *testing.T) {
	for name, fault := range map[string]gateway.Fault{"answer": gateway.Stall, "retry": gateway.Answer(503, "SlowDown")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := gateway.NewProxy(t, "")
			p.Set(fault)
			for name, do := range operations {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
					defer cancel()
					start := time.Now()
					if err := do(ctx, connect(t, "s3://bucket", p.URL)); !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("want DeadlineExceeded, got %v", err)
					}
					if took := time.Since(start); took > 8*time.Second {
						t.Errorf("want an answer soon after 50ms, got it after %s", took)
					}
				})
			}
		})
	}
}

// TestHalfListing meets a service that says that there is more, but not how to get it.
func TestHalfListing(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `<ListBucketResult><Name>bucket</Name><IsTruncated>true</IsTruncated><Contents><Key>a</Key><Size>1</Size></Contents></ListBucketResult>`)
	}))
	defer server.Close()
	if got, err := connect(t, "s3://bucket", server.URL).List(t.Context(), ""); err == nil {
		t.Errorf("List: want an error, got %v", got)
	}
}

// TestPlainListing meets a service that does not encode keys although it is asked to.
func TestPlainListing(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `<ListBucketResult><Name>bucket</Name><Contents><Key>p/b:c</Key></Contents><Contents><Key>p/a</Key></Contents>`+
			`<Contents><Key>p/x%2Fy</Key></Contents><Contents><Key>q/z</Key></Contents></ListBucketResult>`)
	}))
	defer server.Close()
	got, err := connect(t, "s3://bucket/p", server.URL).List(t.Context(), "")
	if err != nil || len(got) != 2 || got[0].Name != "a" || got[1].Name != "b:c" {
		t.Errorf("List: want a and b:c, got %v, %v", got, err)
	}
}

// TestEncodedListing meets a key that XML cannot contain, so that it must be requested encoded.
func TestEncodedListing(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("encoding-type") == "url" {
			io.WriteString(w, `<ListBucketResult><Name>bucket</Name><EncodingType>url</EncodingType><Contents><Key>b%07ell</Key></Contents><Contents><Key>a%3Ab%2Fc</Key></Contents></ListBucketResult>`)
		} else {
			io.WriteString(w, `<ListBucketResult><Name>bucket</Name><Contents><Key>b&#x7;ell</Key></Contents><Contents><Key>a:b/c</Key></Contents></ListBucketResult>`)
		}
	}))
	defer server.Close()
	if got, err := connect(t, "s3://bucket", server.URL).List(t.Context(), ""); err != nil || len(got) != 1 || got[0].Name != "a:b/c" {
		t.Errorf("List: want a:b/c, got %v, %v", got, err)
	}
}

// TestRequestHeaders checks the headers: encryption for every object, the storage class only for large ones.
func TestRequestHeaders(t *testing.T) {
	t.Parallel()
	p := gateway.NewProxy(t, "")
	seen := make(chan *http.Request, 10)
	p.Set(func(p *gateway.Proxy, w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPut || r.Method == http.MethodPost {
			seen <- r
		}
		return gateway.Answer(400, "Refused")(p, w, r)
	})
	s, err := s3.New(t.Context(), "s3://bucket", s3.Config{Endpoint: p.URL, PathStyle: true, SSE: "aws:kms", KMSKeyID: "alias/backups", StorageClass: "cold"})
	if err != nil {
		t.Fatal(err)
	}
	for size, class := range map[int]string{100: "", 9 << 20: "cold"} {
		if err := s.Put(t.Context(), "a", strings.NewReader(strings.Repeat("x", size))); err == nil {
			t.Fatal("Put: want an error")
		}
		wantHeaders(t, <-seen, class)
	}
	if err := s.PutIfAbsent(t.Context(), "a", []byte("x")); err == nil {
		t.Fatal("PutIfAbsent: want an error")
	}
	r := <-seen
	wantHeaders(t, r, "")
	if got := r.Header.Get("If-None-Match"); got != "*" {
		t.Errorf("If-None-Match: want *, got %q", got)
	}
}

func wantHeaders(t *testing.T, r *http.Request, class string) {
	t.Helper()
	for header, want := range map[string]string{
		"X-Amz-Server-Side-Encryption": "aws:kms", "X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id": "alias/backups", "X-Amz-Storage-Class": class,
	} {
		if got := r.Header.Get(header); got != want {
			t.Errorf("%s %s: %s: want %q, got %q", r.Method, r.URL, header, want, got)
		}
	}
}
