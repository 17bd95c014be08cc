package s3_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/snapshot"
	"holdfast/snapshot/s3"
)

func FuzzParseURL(f *testing.F) {
	for _, text := range []string{"s3://bucket/a/b", "s3://b", "s3://bucket//", "s3://bucket/..", "/var/backups"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		bucket, prefix, err := s3.ParseURL(text)
		if err != nil {
			return
		}
		if back := strings.TrimSuffix("s3://"+bucket+"/"+prefix, "/"); back != strings.TrimSuffix(text, "/") {
			t.Errorf("ParseURL(%q): got %q and %q, which are %q", text, bucket, prefix, back)
		}
		if prefix != "" && snapshot.CheckName(prefix) != nil {
			t.Errorf("ParseURL(%q): got the prefix %q, which is none", text, prefix)
		}
	})
}

// FuzzListing gives List any answer: the result is an error, or sorted valid names.
func FuzzListing(f *testing.F) {
	for _, text := range []string{
		"", "<ListBucketResult/>", "<Error><Code>NoSuchBucket</Code></Error>",
		`<ListBucketResult><EncodingType>url</EncodingType><Contents><Key>p/b</Key><Size>3</Size></Contents><Contents><Key>p/a%2Fc</Key></Contents></ListBucketResult>`,
		`<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>x</NextContinuationToken><Contents><Key>p/%</Key></Contents></ListBucketResult>`,
	} {
		f.Add(text)
	}
	var answer atomic.Value
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(answer.Load().(string))) }))
	f.Cleanup(server.Close)
	s, err := s3.New(f.Context(), "s3://bucket/p", s3.Config{Endpoint: server.URL, PathStyle: true})
	if err != nil {
		f.Fatal(err)
	}
	s.Hurry(time.Second)
	f.Fuzz(func(t *testing.T, text string) {
		answer.Store(text)
		got, err := s.List(t.Context(), "")
		if err != nil && len(got) != 0 {
			t.Errorf("List: want an error or objects, got both: %v, %v", got, err)
		}
		if !slices.IsSortedFunc(got, func(a, b snapshot.Object) int { return strings.Compare(a.Name, b.Name) }) {
			t.Errorf("List: want sorted names, got %v", got)
		}
		for _, o := range got {
			if err := snapshot.CheckName(o.Name); err != nil || o.Size < 0 {
				t.Errorf("List: got %+v, %v", o, err)
			}
		}
	})
}
