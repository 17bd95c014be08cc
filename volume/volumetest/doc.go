// Package volumetest is the contract of volume.Provider as a test suite, to be run by the tests of
// every provider: what a node may rely on does not depend on the kind of its volume. RunCarrier is the contract of
// volume.Carrier.
//
// A provider supplies a Fixture: some blank volumes, providers for several nodes over them, and the
// means to do to a volume what the world does. The suite uses the real clock, because a provider may
// talk to real processes; it waits for conditions, never for an amount of time to pass.
package volumetest
