package s3_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/invalid"
	"holdfast/snapshot/s3"
)

func TestParseURL(t *testing.T) {
	for text, want := range map[string][2]string{
		"s3://bucket":                                {"bucket", ""},
		"s3://bucket/":                               {"bucket", ""},
		"s3://my.bucket-1/p":                         {"my.bucket-1", "p"},
		"s3://bucket/a/b/etcd:main/":                 {"bucket", "a/b/etcd:main"},
		"s3://Old_Style/" + strings.Repeat("p", 123): {"Old_Style", strings.Repeat("p", 123)},
	} {
		bucket, prefix, err := s3.ParseURL(text)
		if err != nil || bucket != want[0] || prefix != want[1] {
			t.Errorf("ParseURL(%q): want %q, got %q, %q, %v", text, want, bucket, prefix, err)
		}
	}
	for _, text := range []string{
		"", "bucket", "/var/backups", "s3:", "s3:/bucket", "S3://bucket", "s3://", "s3:///p", "s3://ab", "s3://-bucket", "s3://bucket:9000/p",
		"s3://key:secret@bucket/p", "s3://bucket?versions", "s3://bucket/p?x=1", "s3://bucket//p", "s3://bucket//", "s3://bucket/p//", "s3://bucket/../p",
		"s3://bucket/.hidden", "s3://bucket/a b", "s3://bucket/ä", "s3://" + strings.Repeat("b", 64), "s3://bucket/" + strings.Repeat("p", 124),
		"s3://arn:aws:s3:eu-central-1:123456789012:accesspoint/mine",
	} {
		if bucket, prefix, err := s3.ParseURL(text); err == nil {
			t.Errorf("ParseURL(%q): want an error, got %q, %q, %v", text, bucket, prefix, err)
		}
	}
}

func TestValidate(t *testing.T) {
	for _, good := range []s3.Config{
		s3.Default(),
		{Region: "eu-central-1", SSE: "aws:kms", KMSKeyID: "alias/backups", StorageClass: "STANDARD_IA"},
		{Endpoint: "http://127.0.0.1:7070", PathStyle: true, SSE: "AES256", StorageClass: "cold"},
		{Endpoint: "https://[fd00::1]:9000/s3"},
	} {
		if err := invalid.Join(good.Validate); err != nil {
			t.Errorf("%+v: want no error, got %v", good, err)
		}
	}
	for key, bad := range map[string][]s3.Config{
		"snapshot.s3.region": {{Region: "eu central"}, {Region: "-"}, {Region: "https://s3"}},
		"snapshot.s3.endpoint": {{Endpoint: "minio:9000"}, {Endpoint: "ftp://minio"}, {Endpoint: "https://"}, {Endpoint: "https://k:s@minio"},
			{Endpoint: "https://minio?x"}, {Endpoint: "://"}},
		"snapshot.s3.sse":           {{SSE: "kms"}, {SSE: "aes256"}, {SSE: "aws:kms:dsse"}},
		"snapshot.s3.kms-key-id":    {{KMSKeyID: "alias/x"}, {KMSKeyID: "alias/x", SSE: "AES256"}},
		"snapshot.s3.storage-class": {{StorageClass: "GLACIER"}, {StorageClass: "DEEP_ARCHIVE", Endpoint: "https://x"}, {StorageClass: "cold"}, {StorageClass: "a b", Endpoint: "https://x"}},
	} {
		for _, c := range bad {
			if err := invalid.Join(c.Validate); err == nil || !strings.HasPrefix(err.Error(), key+": ") || strings.Contains(err.Error(), "\n") {
				t.Errorf("%+v: want one error that names %s, got %v", c, key, err)
			}
		}
	}
	all := s3.Config{Region: "-", Endpoint: "-", SSE: "-", KMSKeyID: "-", StorageClass: "*"}
	if got := strings.Count(invalid.Join(all.Validate).Error(), "\n") + 1; got != 5 {
		t.Errorf("%+v: want 5 errors, got %d: %v", all, got, invalid.Join(all.Validate))
	}
}

func TestNew(t *testing.T) {
	if _, err := s3.New(t.Context(), "s3://b", s3.Default()); err == nil {
		t.Error("New with a bad URL: want an error")
	}
	if _, err := s3.New(t.Context(), "s3://bucket", s3.Config{SSE: "x"}); err == nil {
		t.Error("New with a bad config: want an error")
	}
	s, err := s3.New(t.Context(), "s3://bucket/a/b", s3.Config{Endpoint: "https://nowhere.invalid"})
	if err != nil || s.String() != "s3://bucket/a/b" {
		t.Errorf("New calls nobody: want s3://bucket/a/b, got %v, %v", s, err)
	}
}

// TestNewBadFile checks that a broken configuration of the SDK is found at once, not at the first backup.
func TestNewBadFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(file, []byte("[default]\nrequest_checksum_calculation = sometimes\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_CONFIG_FILE", file)
	if _, err := s3.New(t.Context(), "s3://bucket", s3.Default()); err == nil || !strings.Contains(err.Error(), "request_checksum_calculation") {
		t.Errorf("New with a bad config file: want an error that names the setting, got %v", err)
	}
}
