// Package ec2test is a stand-in for Amazon EC2, as httptest is one for a web server. It implements as much of EC2 as
// the claim of a volume needs, is used through the real SDK, and can produce the rare faults of the real EC2 on demand.
//
// A Cloud is the state and the HTTP handler of two services:
//
//   - the EC2 Query protocol (POST /, version 2016-11-15) with the actions DescribeVolumes, DescribeInstances,
//     AttachVolume, DetachVolume, CreateTags, DeleteTags and CreateVolume;
//   - the instance metadata service, version 2 only, at /latest/.
//
// Operators and tests call the methods of Cloud, which see and change the current state at once. HTTP requests come
// from instances or programs, and suffer the injected faults (Cloud.Inject). Only the operator of a demonstration ends
// an instance by HTTP (/_control/terminate).
//
// # Who is calling
//
// Faults, permissions and counts are distinguished by caller: the instance whose access key signed the request
// (AccessKey; the metadata service provides it), otherwise the instance with the address that the request comes from,
// otherwise the name of the access key. Signatures are not checked.
//
// # Current and stale states
//
// Every change makes a new State and keeps the old ones. A read without a fault sees the newest. A stale read sees one
// whole older state, never a mixture that did not exist. Two calls may see two different states, in any order; EC2
// promises no more.
//
// A volume without Multi-Attach is never attached to two instances, and its device is never at two of them. The
// protocol under test relies on that, and Cloud.Intervals records it.
//
// # Devices
//
// Without a DeviceBackend an attachment is only a state. With Loops an attached volume is a real block device, in a
// directory that imitates the machine's /sys and /dev. That needs root and Linux.
//
// # What it does not do
//
// It checks no signatures, knows only one account, and cannot modify volumes through its API. Where AWS does not
// document what happens (the order of checks, a second DetachVolume while the volume is detaching), it does something
// plausible. The conformance test names the source of each behaviour.
//
// The package does not import testing, because a program links it: integration/demo.
package ec2test
