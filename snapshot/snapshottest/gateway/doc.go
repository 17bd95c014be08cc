// Package gateway gives tests a real S3 server: versitygw, on loopback, on a directory of the test. It is built once
// per machine from the module in versitygw/, which pins it and everything it is made of.
//
// [Proxy] stands between a client and the gateway, and does what networks and overloaded services do.
//
// # What versitygw v1.8.0 is, and is not
//
// Seen in its source (github.com/versity/versitygw, backend/posix) and in our tests:
//
//   - Conditional writes are real: the condition is checked again under a lock of the name, just before the object is
//     linked into place, and the lock holds between processes.
//   - A name is a path, so an object cannot have the name of another one's directory. S3 has no such rule; our names
//     do.
//   - A directory that a deletion leaves empty is removed, and a put into it at that moment fails with
//     ExistingObjectIsDirectory, status 409. It succeeds when repeated.
//   - If-None-Match takes a delete marker for an object, and refuses. S3 lets the write pass
//     (docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html).
//   - An unknown access key is answered with XAdminUserNotFound, status 404, not InvalidAccessKeyId, 403.
//   - A part that arrives while its bucket is being removed makes the bucket's directory again.
//   - CompleteMultipartUpload can be repeated, where others answer NoSuchUpload the second time.
//   - Versioning needs a second directory. Object lock needs versioning, as in S3.
//   - The root account has no session tokens, so none expires. Nothing is throttled. Both are the Proxy's to say.
//   - SSE and storage classes are not carried out.
//   - It does not sync files: an object survives the death of the gateway, not of the machine.
package gateway
