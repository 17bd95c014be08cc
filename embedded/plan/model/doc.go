// Package model is a spin model of how a generation ends: consent, objection, the outcome in the store, leaving, and
// what a member that returns may do (rules R5 and R16 to R19). It has no code; end.pml is the model, and model_test.go
// is the table of its variants. `make model` searches them all; `go test -run Model ./embedded/plan/model` the short
// ones.
//
// # What is modelled
//
// There are three voters, two attempts to end their generation, and several actors. Operators restore with consent
// (led), restore or recover without a leader and with any losses, abort, confirm, or recover without the store. A
// machine with blank disks shares the store. A node can be cut from the store or from its peers at any time. Processes
// crash and start again. Disks and the store are lost for good (FINAL). A conclusion that was sent arrives at once,
// later or never. Another cluster puts its record into the store and the gossip.
//
// end.pml names the six properties. Time is not counted. A member is able when it has had a leader and the store for as
// long as a poll, a timeout and an abort take. L is over for a node only when every member that could have aborted for
// all that time has done so. So the model is valid for any L that is long enough, and says nothing about seconds.
//
// # What is not modelled
//
//   - raft: a connected majority has a leader at once, and commits.
//   - The fence's arithmetic with growth and free seats, which fence.go proves and sim_test.go searches.
//   - The log: any data may be beyond the survivor's, and no property is about lost writes.
//   - Proposals that expire, refused puts (NOSPACE, CORRUPT), backups that hold a consent, the beacon, more than one
//     generation: a child with a disk that has entered counts as repairable, because the same rules hold for it.
//   - Outdated reads, except a conclusion that arrives late: a node acts on the store at once.
//
// # What it has shown
//
//   - A led end must not count lost voters as gone (P2, LEDLOST). The leader concludes with one disk and a blank one.
//     The lost voter lives, is cut from the store, and has a majority with the third voter, which can read the store.
//   - A member with a leader follows a leaderless conclusion unless it could have aborted it: unless it has had a
//     leader and the store together for as long as an abort takes. It is not enough to follow only if the store could
//     not be read (P2, STRICT19): a voter starts just before the conclusion, reads the store all the time, gets a
//     leader, and calls the conclusion a conflict; then two generations serve until an operator comes.
//   - Data is set aside only when the child serves (P5, ASIDEATONCE). Otherwise the disks that entered are lost, the
//     others have set theirs aside, and nobody can continue.
//   - A voter leaves for one proposal (P2, LEFTANY): it may read the abort of an earlier one while the conclusion that
//     relies on it is under way.
//   - A recovery without the store is put into the store as a proposal that can be aborted, and its survivor waits L
//     again. As an outcome, it would end a generation that serves (P1, PUTDIRECT).
//   - The limit L: by R5, one living voter that was named lost is enough for two generations, because it has a quorum
//     with a second one that nobody named. If all voters must be here, gone or named, as in a recovery, it takes a
//     majority of living voters that an operator named.
//   - Two generations may acknowledge for a moment with the store in reach: a voter that starts, or gets its leader
//     back, just before the conclusion arrives serves until its next look. P2 says that this does not last.
//   - These rules are not needed for the checked properties (U). Only a leader concludes once consent is committed: a
//     late conclusion may come from a node that has lost its leader. A voter without a leader objects: that guards
//     against an operator's mistake. A starting member waits because of a record alone. Heirs only let a node follow
//     earlier.
//
// # Reading a counterexample
//
// When the protocol fails, the test prints the end of the trail; volume/ebs/model/README.md says how to get the
// shortest one by hand. Voters are masks: a is 1, b is 2, c is 4.
//
// # Measurements
//
// Spin 6.5.2; states are exact, seconds are of one processor and approximate. The protocol has 1,613,057 states (7 s),
// with the last failures and no crash 843,727 (7 s), with recoveries without the store 2,070,021 (8 s); the mutants are
// found within 776,866 (5 s). All of it takes 90 s, nearly half of which is compiling. These were run by hand, because
// they take longer: two crashes (CR=2) hold with 3,784,401 states in 19 s, and there is no dead end after a crash
// (FINAL CR=1) with 3,397,861 in 38 s, nor without heirs and waiting for a record (ONLY=5 FINAL CR=1 NOHEIRS
// RECORDIGNORED) with 3,126,385 in 32 s. Two crashes with recoveries without the store did not finish in 65 s.
package model
