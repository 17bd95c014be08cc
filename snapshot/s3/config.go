package s3

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"holdfast/snapshot"
)

// Config is the section "snapshot.s3" of the configuration: how to reach the bucket of snapshot.store. Credentials come
// from the SDK's usual chain.
type Config struct {
	// Region is the bucket's region. With "" the SDK looks in the environment, the shared config and the instance
	// metadata.
	Region string `mapstructure:"region"`
	// Endpoint is the URL of an S3-compatible service, "" for AWS.
	Endpoint string `mapstructure:"endpoint"`
	// PathStyle puts the bucket into the path instead of the host name, as most services other than AWS need.
	PathStyle bool `mapstructure:"path-style"`
	// SSE is the server-side encryption: "" for the bucket's default, "AES256" (SSE-S3) or "aws:kms" (SSE-KMS).
	SSE string `mapstructure:"sse"`
	// KMSKeyID is the key for "aws:kms", "" for the account's default key.
	KMSKeyID string `mapstructure:"kms-key-id"`
	// StorageClass is for objects larger than 8 MiB, "" for the service's standard class. All others stay in the standard
	// class: the classes for infrequent access bill small objects as if they were larger.
	StorageClass string `mapstructure:"storage-class"`
}

// Default returns the default configuration: AWS, the region found by the SDK, the bucket's default encryption.
func Default() Config { return Config{} }

var (
	regionName  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9-]*$`)
	bucketName  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]$`)
	className   = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)
	encryptions = []string{"", "AES256", "aws:kms"}
	readable    = []string{"STANDARD", "STANDARD_IA", "ONEZONE_IA", "INTELLIGENT_TIERING", "GLACIER_IR",
		"REDUCED_REDUNDANCY"}
	mustBeThawed = []string{"GLACIER", "DEEP_ARCHIVE"}
)

// Validate calls wrong for every invalid value.
func (c Config) Validate(wrong func(key, format string, args ...any)) {
	bad := func(key, format string, args ...any) { wrong("snapshot.s3."+key, format, args...) }
	if c.Region != "" && (len(c.Region) > 63 || !regionName.MatchString(c.Region)) {
		bad("region", `must be the name of a region, like eu-central-1, got %q`, c.Region)
	}
	if c.Endpoint != "" {
		u, err := url.Parse(c.Endpoint)
		if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Hostname() == "" ||
			u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			bad("endpoint", `must be a URL like https://s3.example.com:9000, or "" for AWS, got %q`, c.Endpoint)
		}
	}
	if !slices.Contains(encryptions, c.SSE) {
		bad("sse", `must be "" (the bucket's default), AES256 or aws:kms, got %q`, c.SSE)
	}
	if c.KMSKeyID != "" && c.SSE != "aws:kms" {
		bad("kms-key-id", "needs snapshot.s3.sse: aws:kms, got sse %q", c.SSE)
	}
	switch {
	case c.StorageClass == "":
	case slices.Contains(mustBeThawed, c.StorageClass):
		bad("storage-class", "%s cannot be read for hours, and every backup is read back at once; "+
			"take GLACIER_IR, or let a lifecycle rule of the bucket move old backups", c.StorageClass)
	case c.Endpoint == "" && !slices.Contains(readable, c.StorageClass):
		bad("storage-class", `must be "" or one of %s, got %q`, strings.Join(readable, ", "), c.StorageClass)
	case len(c.StorageClass) > 64 || !className.MatchString(c.StorageClass):
		bad("storage-class", "must be the name of a storage class, got %q", c.StorageClass)
	}
}

// maxPrefix keeps the longest key within S3's 1024 bytes: snapshot.CheckName allows 900, plus a slash.
const maxPrefix = 1024 - 900 - 1

// ParseURL splits s3://bucket/prefix. The prefix, which may be missing, is returned without a slash at either end.
func ParseURL(text string) (bucket, prefix string, err error) {
	rest, ok := strings.CutPrefix(text, "s3://")
	if !ok {
		return "", "", fmt.Errorf("must be s3://bucket/prefix, got %q", text)
	}
	bucket, prefix, found := strings.Cut(strings.TrimSuffix(rest, "/"), "/")
	if !bucketName.MatchString(bucket) {
		return "", "", fmt.Errorf("%q: must be s3://bucket/prefix with a bucket name of 3-63 letters, digits, "+
			"dots or dashes, got %q", text, bucket)
	}
	if !found {
		return bucket, "", nil
	}
	if err := snapshot.CheckName(prefix); err != nil {
		return "", "", fmt.Errorf("%q: prefix: %w", text, err)
	}
	if len(prefix) > maxPrefix {
		return "", "", fmt.Errorf("%q: the prefix must be at most %d bytes, got %d", text, maxPrefix,
			len(prefix))
	}
	return bucket, prefix, nil
}
