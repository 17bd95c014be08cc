// Package s3 keeps backups in a bucket: of AWS, or of any service that speaks S3 and honours conditional writes.
//
// # What it does
//
// [Store] is a snapshot.Store. Object <name> is the key <prefix>/<name>.
//
//   - Put streams through the SDK's transfer manager. What fits one part of 8 MiB is one request; anything larger is a
//     multipart upload, two parts in flight, so that it takes some 40 MiB of memory whatever the size. S3 allows 10,000
//     parts (docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html), which makes 78 GiB of compressed data the
//     largest backup; etcd advises against databases of more than 8 GiB. Every part, and the object as a whole, carries
//     a CRC-32C, which the service checks, and which is checked again when the object is read.
//   - PutIfAbsent is a PutObject with "If-None-Match: *". The object carries a random nonce, by which a caller knows
//     it for its own when the answer to its first attempt was lost and the second attempt is refused.
//   - Credentials, the region, retries, proxies and the CA bundle come from where every AWS tool takes them. When the
//     service refuses the credentials they are read again at the next call, so that changed files need no restart.
//
// # Invariants
//
//   - Only NoSuchKey, as the answer to a GetObject, is snapshot.ErrNotFound. HeadObject is never used: its 404 does not
//     tell a missing object from a missing bucket.
//   - Nothing waits forever: a connection on which no byte moves for a minute is an error, in any phase.
//   - A Put that fails aborts its upload. Uploads of our data that are left all the same, by a crash or by a part that
//     arrived after the abort, are aborted a day later, by the service's clock, before the next large Put.
//   - Versions of objects are never deleted and retention is never bypassed: in a versioned bucket Delete leaves a
//     delete marker, and what is under it goes when the bucket's lifecycle rules say so.
//
// # Dangers
//
//   - A service that ignores If-None-Match can arbitrate nothing. snapshot.Probe finds out.
//   - A service that drops user metadata loses the nonce. Then a PutIfAbsent whose answer was lost is told ErrExists
//     about its own object: nobody wins, but never two.
//   - Without s3:ListBucket, AWS answers 403 for an object that is missing. That is an error, never ErrNotFound, so a
//     store with such credentials does not work at all.
//   - The transfer manager logs a failing CompleteMultipartUpload with the standard library's logger, besides
//     returning the error.
//
// docs/s3.md says how to set up the bucket.
package s3
