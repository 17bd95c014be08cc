// Package s3 keeps backups in a bucket: of AWS, or of any service that speaks S3 and honours conditional writes.
//
// # What it does
//
// [Store] is a snapshot.Store. Object <name> is the key <prefix>/<name>.
//
//   - Put streams through the SDK's transfer manager. An object that fits into one part of 8 MiB is one request. A
//     larger one is a multipart upload with two parts in flight, which takes about 40 MiB of memory for any size. S3
//     allows 10,000 parts (docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html), so the largest backup has 78 GiB
//     of compressed data; etcd advises against databases of more than 8 GiB. Every part, and the object as a whole, has
//     a CRC-32C, which the service checks, and which is checked again when the object is read.
//   - PutIfAbsent is a PutObject with "If-None-Match: *". The object has a random nonce. By it a caller recognises its
//     own object if the answer to its first attempt was lost and the second attempt is refused.
//   - Credentials, the region, retries, proxies and the CA bundle are configured as for every AWS tool. If the service
//     refuses the credentials, the next call reads them again, so that changed files need no restart.
//
// # Invariants
//
//   - Only NoSuchKey, as the answer to a GetObject, becomes snapshot.ErrNotFound. HeadObject is never used: its 404
//     does not distinguish a missing object from a missing bucket.
//   - Nothing waits forever: in any phase, a connection on which no byte moves for a minute is an error, and so is an
//     answer of which neither 64 KiB nor the end comes within five minutes.
//   - A success counts only if the answer has what S3 always sends with it. A web page is no empty listing, and no
//     write that was made. A deletion is believed, because its answer is empty: package snapshot asks for the object
//     then.
//   - A failed Put aborts its upload. holdfast's uploads that still remain, after a crash or because a part arrived
//     after the abort, are aborted a day later, by the service's clock, before the next large Put.
//   - Versions of objects are never deleted and retention is never bypassed. In a versioned bucket Delete leaves a
//     delete marker, and the bucket's lifecycle rules decide when the versions below it are removed.
//
// # Dangers
//
//   - A service that ignores If-None-Match cannot decide between two writers. snapshot.Probe detects this.
//   - A service that drops user metadata loses the nonce. A PutIfAbsent whose answer was lost then gets ErrExists for
//     its own object: perhaps nobody wins, but never two.
//   - Without s3:ListBucket, AWS answers 403 for a missing object. That is an error, never ErrNotFound, so a store with
//     such credentials does not work at all.
//   - The transfer manager logs a failed CompleteMultipartUpload with the standard library's logger, in addition to
//     returning the error.
//
// docs/s3.md says how to set up the bucket.
package s3
