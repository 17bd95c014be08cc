// Package gateway gives tests a real S3 server: versitygw, on loopback, on a directory of the test. It is built once
// per machine from the module in versitygw/, which pins it and all its dependencies.
//
// [Proxy] is between a client and the gateway, and simulates faults of networks and of overloaded services. [Liar]
// mixes them with listings that are not what the bucket holds.
//
// # How versitygw v1.8.0 differs from S3
//
// Found in its source (github.com/versity/versitygw, backend/posix) and in tests here:
//
//   - Conditional writes work: the condition is checked again under a lock of the name, just before the object is
//     linked into place, and the lock works between processes.
//   - A name is a path, so an object cannot have the name of another object's directory. S3 has no such rule, but
//     snapshot.Store has.
//   - A directory that a deletion leaves empty is removed, and a put into it at that moment fails with
//     ExistingObjectIsDirectory, status 409. It succeeds when repeated.
//   - If-None-Match takes a delete marker for an object, and refuses. S3 allows the write
//     (docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html).
//   - An unknown access key is answered with XAdminUserNotFound, status 404, not InvalidAccessKeyId, 403.
//   - A part that arrives while its bucket is being removed creates the bucket's directory again.
//   - CompleteMultipartUpload can be repeated; other services answer NoSuchUpload the second time.
//   - Versioning needs a second directory. Object lock needs versioning, as in S3.
//   - The root account has no session tokens, so none expires. Nothing is throttled. The Proxy can simulate both.
//   - SSE and storage classes have no effect.
//   - It does not sync files: an object survives the end of the gateway, but not of the machine.
package gateway
