package s3

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"holdfast/invalid"
	"holdfast/snapshot"
)

// Store is a [snapshot.Store] in a bucket.
type Store struct {
	bucket string
	prefix string // "", or ends with a slash
	cfg    Config
	stall  time.Duration // how long a connection may be silent
	pause  time.Duration // the longest between two attempts of one request

	undialed atomic.Pointer[error] // why the last connection failed; points to nil if it did not

	mu     sync.Mutex
	client *s3.Client // nil before the first use, and after the service has refused its credentials
	swept  time.Time  // when sweep last ran
}

var _ snapshot.Store = (*Store)(nil)

// New returns the store at url, s3://bucket/prefix. It reads the SDK's configuration and sends nothing.
func New(ctx context.Context, url string, cfg Config) (*Store, error) {
	bucket, prefix, err := ParseURL(url)
	if err != nil {
		return nil, err
	}
	if err := invalid.Join(cfg.Validate); err != nil {
		return nil, err
	}
	if prefix != "" {
		prefix += "/"
	}
	s := &Store{bucket: bucket, prefix: prefix, cfg: cfg, stall: time.Minute, pause: 20 * time.Second}
	if _, err := s.load(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Store) key(name string) *string { return aws.String(s.prefix + name) }

// begin checks a name and returns the client.
func (s *Store) begin(ctx context.Context, name string) (*s3.Client, error) {
	if err := snapshot.CheckName(name); err != nil {
		return nil, err
	}
	return s.connect(ctx)
}

// Get implements snapshot.Store.
func (s *Store) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	client, err := s.begin(ctx, name)
	if err != nil {
		return nil, err
	}
	out, err := client.GetObject(ctx, &s3.GetObjectInput{Bucket: &s.bucket, Key: s.key(name)})
	if hasCode(err, "NoSuchKey") {
		return nil, fmt.Errorf("get object %s: %w", name, snapshot.ErrNotFound)
	}
	if err != nil {
		return nil, s.explain(ctx, "get object "+name, err)
	}
	return &body{ctx: ctx, store: s, name: name, ReadCloser: out.Body}, nil
}

// body is the content of an object while it is read.
type body struct {
	ctx   context.Context
	store *Store
	name  string
	io.ReadCloser
}

func (b *body) Read(p []byte) (int, error) {
	if b.ctx.Err() != nil {
		return 0, context.Cause(b.ctx)
	}
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = b.store.explain(b.ctx, "read object "+b.name, err)
	}
	return n, err
}

// List implements snapshot.Store. It leaves out the keys of other users of the bucket that are not valid names.
func (s *Store) List(ctx context.Context, prefix string) ([]snapshot.Object, error) {
	client, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	doing := fmt.Sprintf("list objects %q", prefix)
	// URL encoding, because a foreign key with a control character would make the answer invalid XML.
	in := &s3.ListObjectsV2Input{Bucket: &s.bucket, Prefix: s.key(prefix), EncodingType: types.EncodingTypeUrl}
	var objects []snapshot.Object
	for {
		out, err := client.ListObjectsV2(ctx, in)
		if err != nil {
			return nil, s.explain(ctx, doing, err)
		}
		for _, o := range out.Contents {
			if name, ok := s.nameOf(o.Key, out.EncodingType); ok && strings.HasPrefix(name, prefix) {
				objects = append(objects, snapshot.Object{Name: name, Size: aws.ToInt64(o.Size),
					Modified: aws.ToTime(o.LastModified)})
			}
		}
		if err := snapshot.CheckCount(len(objects)); err != nil {
			return nil, fmt.Errorf("%s in %s: %w", doing, s, err)
		}
		if !aws.ToBool(out.IsTruncated) {
			break
		}
		// The SDK's paginator takes a missing token for the end. Half a listing would be worse than an error.
		if aws.ToString(out.NextContinuationToken) == "" ||
			aws.ToString(out.NextContinuationToken) == aws.ToString(in.ContinuationToken) {
			return nil, fmt.Errorf("%s in %s: the service says that there is more, but not how to ask for it", doing, s)
		}
		in.ContinuationToken = out.NextContinuationToken
	}
	slices.SortFunc(objects, func(a, b snapshot.Object) int { return cmp.Compare(a.Name, b.Name) })
	return objects, nil
}

// nameOf returns the name for a key of a listing, if it is a valid name.
func (s *Store) nameOf(listed *string, encoding types.EncodingType) (string, bool) {
	key := aws.ToString(listed)
	if encoding == types.EncodingTypeUrl { // otherwise the service ignored the request for it
		var err error
		if key, err = url.QueryUnescape(key); err != nil {
			return "", false
		}
	}
	name, ok := strings.CutPrefix(key, s.prefix)
	return name, ok && snapshot.CheckName(name) == nil
}

// Delete implements snapshot.Store. In a versioned bucket the object's versions stay, under a delete marker.
func (s *Store) Delete(ctx context.Context, name string) error {
	client, err := s.begin(ctx, name)
	if err != nil {
		return err
	}
	_, err = client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &s.bucket, Key: s.key(name)})
	if err != nil && !hasCode(err, "NoSuchKey") {
		return s.explain(ctx, "delete object "+name, err)
	}
	return nil
}

// String returns the store's URL.
func (s *Store) String() string { return strings.TrimSuffix("s3://"+s.bucket+"/"+s.prefix, "/") }
