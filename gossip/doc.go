// Package gossip tells the nodes of one cluster about each other, and answers the names of its slots inside this
// process.
//
// A [Mesh] is this node's part in a memberlist cluster. A process says two things of itself: its [Meta] for life (name,
// start time, address, version), in memberlist's own packets; and a state of a few KiB whenever that changes
// ([Mesh.Publish]), which goes to every live node at once, and from node to node by memberlist's push/pull. Together
// they are its word. [Mesh.Ask] puts one question to one node. An [Observer] is told all words and says nothing. A
// [Resolver] answers the slots' names from a table of the caller's, and leaves all others to the nameservers.
//
// A word is firsthand, but may be old. So only facts that stay true may be read from it; all others must be asked for.
// The package decides nothing: no claim, founding or removal follows from its clocks. It writes nothing to disk.
//
// # Which process counts
//
// memberlist knows a process as "<node>#<start time>", so that a restarted one waits for nobody to forget the old one.
// Of each node one process counts, and of its words the latest. A live one counts rather than a lost one; of lost ones,
// the one that was started last. Of two live ones (twins: a copied machine, or a wrong configuration) the one that was
// heard first counts until it is lost, so that a copy never takes a name from a node that serves. Of two that are heard
// within 2 s of each other, the one that was started first counts. At one address only the later one can be alive. Each
// process decides this for itself, so two of them can disagree: raft alone says who is connected, and who leads.
//
// # Forgetting
//
// A lost node stays listed with its last word, which still counts, until it is forgotten: by time (Config.ForgetAfter)
// or by command ([Mesh.Forget]). A process counts the time since it lost the node; if it never saw the node, the time
// that others report, which only grows. A state that is evidence of a cluster ([Mesh.UseEvidence]) fades only while
// this node is part of one ([Mesh.Settle]): a blank node might found a second cluster. What has faded is no longer
// told, but its address is still tried, so that a mesh heals that was partitioned for days. A command spreads as a
// tombstone for the last word that was known. A later word counts, and so does a process that is heard alive. There are
// at most 64 tombstones, for 7 days, and only in memory.
//
// # Whose word counts
//
// Except with tls.mode off, a word counts only with a proof, no matter who tells it: that node's certificate, and a
// signature by its key (proof.go). A connection with the speaker's certificate is not enough, because a new node hears
// of a lost one only from others. A live process counts only once it has spoken itself; a question is asked of, and
// answered to, only the node whose certificate is at the other end. What others know better is not proven: who is live,
// where it gossips, since when it is lost, and that it was forgotten by command. A certificate of the operator's that
// names no node speaks for any.
//
// # On the wire
//
// Every byte goes over TLS 1.3 with certificates of the mesh on both sides, which are checked again every minute. With
// tls.mode off these are made from the keys of Config.KeyFile, or from nothing, and then anyone can make them. The
// handshake names the cluster, the version, and what the connection is for. A stream and a question have a connection
// of their own; the packets to one process share one, and are lost rather than waited for.
//
// What has trailing bytes or too large a size is refused whole, counted, and shown by Problems; unknown fields are
// passed over. guard.go looks at all that memberlist is given. No key is ever shown.
//
// An observer dials one node. The node sends all words at once, whenever one changes, and a beat every second. An
// observer that hears nothing for 3 s goes to another node, and after 5 s takes all for lost. Who is live it has only
// from its node, so it also tries the nodes that this one does not hear, and goes to one that hears more.
//
// Memory is bounded: 256 nodes with 64 KiB of state and 8 KiB of proof each; 512 observers, 8 at one address; 64
// problems; 64 questions, 16 of one node; 8 invalid proofs in a message; 512 connections that have not said what they
// are for, 32 from one address; 1,024 admitted ones, 64 of one node; with tls.mode off 32 from addresses outside the
// mesh, 8 from one; 512 connections that we dialled for packets. What comes in beyond these bounds has the oldest one
// closed, so that nobody is kept out by what others hold open; only observers and questions are refused.
//
// # Timings, for a LAN
//
// A killed process is lost after 3 to 5 s, and one that stops cleanly after 0.5 s; one that pauses for 2 s stays live.
// A state arrives in milliseconds, and a send that fails is repeated after 1 s. Every 10 s each node exchanges all that
// it knows with another one (push/pull). That heals what was lost unnoticed, and spreads tombstones and the last word
// of a node that could not tell everyone. Seeds and lost nodes are tried again every 3 s while alone, every 3 to 9 s in
// company, forever.
//
// # Dangers
//
//   - With tls.mode off anyone who has a key can say anything, and without keys anyone who reaches the port. Else
//     anyone who has a node's certificate can say anything in its name, and of others only whether they are live.
//   - guard.go depends on memberlist's format. After an update it may refuse everything; the tests would show it.
//   - Except with tls.mode off, a node whose clock is outside the life of the others' certificates hears nobody.
//   - The start time must rise from process to process of a node, whatever its clock says (Problems names those that it
//     keeps from counting). One that is started elsewhere within 5 s of a kill counts when the old one is lost.
//   - memberlist calls the delegate under its own lock: code there must neither block nor call back.
//   - A stalled TCP connection holds up what is queued behind it. Only Linux gives one up after 2 s.
//   - A line in /etc/hosts wins over the Resolver: Check and Stale look for it. net.DefaultResolver is one per process,
//     so two clusters in one process cannot each have their own.
package gossip
