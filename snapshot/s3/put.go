package s3

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager"
	tmtypes "github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"holdfast/snapshot"
)

const (
	// partSize limits an object to 10,000 times that size, and the memory of a Put to about five times: two parts in
	// flight, one being filled, the first one, and the smaller buffer from which the first one grew.
	partSize = 8 << 20
	inFlight = 2
	// cleanup is the time for aborting an upload after its context has ended.
	cleanup = 10 * time.Second
	// nonceKey is the key of the user metadata that distinguishes writes of the same content.
	nonceKey = "holdfast-nonce"
	// dataFile is the prefix of the last part of every large object's name, in holdfast's layout and etcd-manager's.
	dataFile = "etcd.backup."
)

// Put implements snapshot.Store. At most 78 GiB can be put.
func (s *Store) Put(ctx context.Context, name string, r io.Reader) error {
	client, err := s.begin(ctx, name)
	if err != nil {
		return err
	}
	src := &source{ctx: ctx, r: r}
	up := uploads{Client: client, store: s, nonce: rand.Text()}
	_, err = transfermanager.New(up, func(o *transfermanager.Options) {
		o.PartSizeBytes = partSize
		o.MultipartUploadThreshold = partSize
		o.Concurrency = inFlight
		o.FailTimeout = cleanup
		o.RequestChecksumCalculation = client.Options().RequestChecksumCalculation
	}).UploadObject(ctx, &transfermanager.UploadObjectInput{
		Bucket: &s.bucket, Key: s.key(name), Body: src,
		Metadata:             map[string]string{nonceKey: up.nonce},
		ServerSideEncryption: tmtypes.ServerSideEncryption(s.cfg.SSE), SSEKMSKeyID: optional(s.cfg.KMSKeyID),
		ChecksumAlgorithm: tmtypes.ChecksumAlgorithm(checksum(client)),
		ChecksumType:      tmtypes.ChecksumType(checksumType(client)),
	})
	if src.err != nil {
		return fmt.Errorf("put object %s: read its data: %w", name, src.err)
	}
	if err != nil {
		return s.explain(ctx, "put object "+name, err)
	}
	return nil
}

// PutIfAbsent implements snapshot.Store. The service refuses the write if the name is taken. If the answer to an
// earlier attempt was lost, it may refuse because of this call's own object: the nonce tells.
func (s *Store) PutIfAbsent(ctx context.Context, name string, data []byte) error {
	client, err := s.begin(ctx, name)
	if err != nil {
		return err
	}
	doing := "put object " + name + " if absent"
	nonce := rand.Text()
	_, err = client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: &s.bucket, Key: s.key(name), Body: bytes.NewReader(data), IfNoneMatch: aws.String("*"),
		Metadata:             map[string]string{nonceKey: nonce},
		ServerSideEncryption: types.ServerSideEncryption(s.cfg.SSE), SSEKMSKeyId: optional(s.cfg.KMSKeyID),
		ChecksumAlgorithm: checksum(client),
	})
	if err == nil {
		return nil
	}
	if !hasCode(err, "PreconditionFailed") && status(err) != http.StatusPreconditionFailed {
		return s.explain(ctx, doing, err)
	}
	switch mine, err := s.isMine(ctx, client, s.key(name), nonce); {
	case hasCode(err, "NoSuchKey"):
		// Was it this call's object, and was it deleted since? Neither nil nor ErrExists would certainly be true.
		return fmt.Errorf("%s in %s: the service refused it for an object that is not there: it was deleted "+
			"meanwhile, or the service takes a "+
			"delete marker for an object; take another name, or try again", doing, s)
	case err != nil:
		return s.explain(ctx, doing+": see who wrote it", err)
	case !mine:
		return fmt.Errorf("%s: %w", doing, snapshot.ErrExists)
	}
	return nil
}

// isMine reports whether an object was written with this nonce.
func (s *Store) isMine(ctx context.Context, client *s3.Client, key *string, nonce string) (bool, error) {
	out, err := client.GetObject(ctx, &s3.GetObjectInput{Bucket: &s.bucket, Key: key})
	if err != nil {
		return false, err
	}
	out.Body.Close()
	return out.Metadata[nonceKey] == nonce, nil
}

// uploads is the client for the transfer manager, with two improvements.
type uploads struct {
	*s3.Client
	store *Store
	nonce string
}

// CreateMultipartUpload first aborts old uploads, and sets the storage class of large objects.
func (u uploads) CreateMultipartUpload(ctx context.Context, in *s3.CreateMultipartUploadInput,
	optFns ...func(*s3.Options)) (*s3.CreateMultipartUploadOutput, error) {
	u.store.sweep(ctx, u.Client)
	in.StorageClass = types.StorageClass(u.store.cfg.StorageClass)
	return u.Client.CreateMultipartUpload(ctx, in, optFns...)
}

// CompleteMultipartUpload handles a lost answer: if the upload is gone, the object may already be there.
func (u uploads) CompleteMultipartUpload(ctx context.Context, in *s3.CompleteMultipartUploadInput,
	optFns ...func(*s3.Options)) (*s3.CompleteMultipartUploadOutput, error) {
	out, err := u.Client.CompleteMultipartUpload(ctx, in, optFns...)
	if hasCode(err, "NoSuchUpload") {
		if mine, e := u.store.isMine(ctx, u.Client, in.Key, u.nonce); e == nil && mine {
			return &s3.CompleteMultipartUploadOutput{Bucket: in.Bucket, Key: in.Key}, nil
		}
	}
	return out, err
}

// sweep aborts uploads of crashed writers once a day. Their parts are invisible and cost money. It is optional: if it
// fails, it is repeated a day later, and the lifecycle rule in docs/s3.md does the same.
func (s *Store) sweep(ctx context.Context, client *s3.Client) {
	s.mu.Lock()
	due := s.swept.IsZero() || time.Since(s.swept) > snapshot.AbandonedAfter
	if due {
		s.swept = time.Now()
	}
	s.mu.Unlock()
	if !due {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, cleanup)
	defer cancel()
	pages := s3.NewListMultipartUploadsPaginator(client,
		&s3.ListMultipartUploadsInput{Bucket: &s.bucket, Prefix: &s.prefix, EncodingType: types.EncodingTypeUrl})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return
		}
		// Use the service's clock: the local clock may have jumped, which must not abort the uploads of others.
		now, ok := awsmiddleware.GetServerTime(page.ResultMetadata)
		for _, u := range page.Uploads {
			name, ours := s.nameOf(u.Key, page.EncodingType)
			if !ok || !ours || !strings.HasPrefix(path.Base(name), dataFile) || u.Initiated == nil ||
				now.Sub(*u.Initiated) < snapshot.AbandonedAfter {
				continue
			}
			in := &s3.AbortMultipartUploadInput{Bucket: &s.bucket, Key: s.key(name), UploadId: u.UploadId}
			if _, err := client.AbortMultipartUpload(ctx, in); err != nil {
				return
			}
		}
	}
}

// checksum returns the algorithm for requests: CRC-32C, which processors support. With when_required in
// AWS_REQUEST_CHECKSUM_CALCULATION or the shared config, for services that refuse checksums, there is none.
func checksum(client *s3.Client) types.ChecksumAlgorithm {
	if client.Options().RequestChecksumCalculation == aws.RequestChecksumCalculationWhenRequired {
		return ""
	}
	return types.ChecksumAlgorithmCrc32c
}

// checksumType requests a checksum of the whole object, not of the parts' checksums. Only that can be checked when the
// object is read later.
func checksumType(client *s3.Client) types.ChecksumType {
	if checksum(client) == "" {
		return ""
	}
	return types.ChecksumTypeFullObject
}

// source is the data of a Put. It ends with the context, and records its own error, to distinguish it from the
// service's.
type source struct {
	ctx context.Context
	r   io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	if s.ctx.Err() != nil {
		return 0, context.Cause(s.ctx)
	}
	n, err := s.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// optional returns nil for "".
func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
