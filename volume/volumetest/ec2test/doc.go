// Package ec2test is a stand-in for Amazon EC2, as httptest is one for a web server: as much of EC2 as the
// claim of a volume needs, spoken to by the real SDK, with the faults that the real EC2 shows once a year
// on demand.
//
// A Cloud is the state and the HTTP handler of three things:
//
//   - the EC2 Query protocol (POST /, version 2016-11-15) with the actions DescribeVolumes,
//     DescribeInstances, AttachVolume, DetachVolume, CreateTags, DeleteTags and CreateVolume;
//   - the instance metadata service, version 2 only, at /latest/;
//   - a small JSON control interface at /_control/, for which Client is the other end: a demonstration
//     runs the stand-in in a process of its own (Serve).
//
// The methods of Cloud are the operator's and the test's: they see and change the truth at once. What comes
// by HTTP is an instance's or a program's, and suffers the faults that were injected (Cloud.Inject).
//
// # Who is calling
//
// Faults, permissions and counts are told apart by the caller: the instance whose access key signed the
// request (AccessKey; the metadata service hands it out), else the instance with the address the request
// comes from, else the name of the access key. Signatures are not checked.
//
// # Truth, and what is read
//
// Every change makes a new State and keeps the old ones. A read that is answered truthfully sees the newest;
// a stale one sees an older one, as a whole: never a mixture that did not exist. Two calls may see two
// different ones, and in any order, which is what EC2 promises (no more).
//
// A non-Multi-Attach volume is never attached to two instances, and its device is never at two of them:
// that is what the protocol under test relies on, and Cloud.Intervals is the record of it.
//
// # Devices
//
// Without a DeviceBackend attaching is only a state. With Loops an attached volume is a real block device
// in a directory that looks like the /sys and /dev of that machine. It needs root, and Linux.
//
// # What it does not do
//
// It checks no signature, knows no account but one, and does not modify volumes by its API. Where AWS does
// not document what happens (the order of checks, the second DetachVolume of a volume that is detaching)
// something plausible was chosen; the conformance test says which behaviour rests on which source.
//
// The package does not import testing: a program links it, integration/demo.
package ec2test
