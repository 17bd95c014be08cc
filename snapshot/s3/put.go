package s3

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
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
	// partSize bounds the size of an object to 10,000 times as much, and the memory of a Put to some five times as
	// much: two parts on their way, one being filled, the first one, and what the first one grew out of.
	partSize = 8 << 20
	inFlight = 2
	// cleanup is the time for aborting an upload after its context has ended.
	cleanup = 10 * time.Second
	// nonceKey is the key of the user metadata that tells one write from another of the same content.
	nonceKey = "holdfast-nonce"
	// dataFile is how the last part of the name of every large object begins, in our layout and in etcd-manager's.
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

// PutIfAbsent implements snapshot.Store. The arbiter is the service, which refuses the write when the name is taken.
// A refusal may also be about our own object, when the answer to an earlier attempt was lost: the nonce tells.
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
	if !refused(err) {
		return s.explain(ctx, doing, err)
	}
	switch mine, err := s.isMine(ctx, client, s.key(name), nonce); {
	case hasCode(err, "NoSuchKey"):
		// Was it ours, and has somebody deleted it since? Neither nil nor ErrExists would be sure to be true.
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

// isMine reports whether the object is the one written with nonce.
func (s *Store) isMine(ctx context.Context, client *s3.Client, key *string, nonce string) (bool, error) {
	out, err := client.GetObject(ctx, &s3.GetObjectInput{Bucket: &s.bucket, Key: key})
	if err != nil {
		return false, err
	}
	out.Body.Close()
	return out.Metadata[nonceKey] == nonce, nil
}

// uploads is the client as the transfer manager sees it, better in two points.
type uploads struct {
	*s3.Client
	store *Store
	nonce string
}

// CreateMultipartUpload first makes room, and puts large objects into their storage class.
func (u uploads) CreateMultipartUpload(ctx context.Context, in *s3.CreateMultipartUploadInput,
	optFns ...func(*s3.Options)) (*s3.CreateMultipartUploadOutput, error) {
	u.store.sweep(ctx, u.Client)
	in.StorageClass = types.StorageClass(u.store.cfg.StorageClass)
	return u.Client.CreateMultipartUpload(ctx, in, optFns...)
}

// CompleteMultipartUpload is not fooled by a lost answer: an upload that is gone may be the object that is there.
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

// sweep aborts the uploads of our data that crashed writers left, once a day. Their parts are invisible and cost money.
// It is an extra: what goes wrong here comes again tomorrow, and the lifecycle rule in docs/s3.md does the same.
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
		// The service's clock, because ours may have jumped, and the uploads of others must not suffer for it.
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

// checksum is the algorithm for what is sent: CRC-32C, which processors compute. AWS_REQUEST_CHECKSUM_CALCULATION or
// the shared config can say when_required, for services that refuse checksums; then there is none.
func checksum(client *s3.Client) types.ChecksumAlgorithm {
	if client.Options().RequestChecksumCalculation == aws.RequestChecksumCalculationWhenRequired {
		return ""
	}
	return types.ChecksumAlgorithmCrc32c
}

// checksumType asks for a checksum of the whole object, not one of its parts' checksums: only that can be checked by
// anyone who reads the object later.
func checksumType(client *s3.Client) types.ChecksumType {
	if checksum(client) == "" {
		return ""
	}
	return types.ChecksumTypeFullObject
}

// source is what a Put reads. It ends with the context, and remembers its own error, which is not the service's.
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

// optional is nil for "".
func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
