// Package volumetest is the contract of volume.Provider as a test suite. The tests of every provider run it, because a
// node may rely on the same contract for every kind of volume. RunCarrier is the contract of volume.Carrier.
//
// A provider supplies a Fixture: some blank volumes, providers for several nodes over them, and functions that simulate
// outside events. The suite uses the real clock, because a provider may work with real processes. It waits for
// conditions, never for a fixed time.
package volumetest
