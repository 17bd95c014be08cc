// Package gossip tells the nodes of one cluster about each other, and answers the names of its slots
// inside this process.
//
// # The mesh
//
// A Mesh is this node's part in a memberlist cluster. It carries two things. A Meta is what a process
// says of itself for its life: name, start time, address, version; it travels in memberlist's own
// packets. A state is a few KiB that the process publishes whenever they change (this package does not
// look into them); it goes to every live node at once over a stream, and spreads from node to node by
// memberlist's push/pull. Beside these, Ask puts one question to one node and returns its answer.
//
// Gossip is hearsay about others and firsthand about the speaker: a node's state was written by that
// node, but may be old. So only facts that stay true once true may be read from it (a promise given, a
// record accepted); everything else must be asked for or be proved elsewhere. A lost node stays listed
// with its last state, since its facts still count, until it is forgotten.
//
// The package never decides anything: no claim, no founding, no removal follows from its clocks. It writes nothing to
// disk, never sends a node's state through a seed or a leader, and never takes another node's word for what this
// process published.
//
// # Invariants
//
//   - A process is known to memberlist as "<node>#<start time>". A restarted process, at whatever
//     address, is a new member and waits for nobody to forget the old one.
//   - One record per node name, that of one process; within a process the highest sequence number wins. A live process
//     counts rather than a lost one, and of lost ones that with the highest start time. Section "Twins" has the rest.
//   - Everything sent begins with a version; another version, trailing bytes or a size beyond the
//     limits are refused whole, counted, and shown in Problems. Fields that are not known are passed over.
//   - An observer is no member of the mesh. It says hello, once, and is told everything.
//   - Memory is bounded: 256 nodes, 64 KiB of state each; 512 observers of a node, 8 at one address; 64 problems, 64
//     questions under way; handshakes (without TLS: streams) of 32 for each address of the mesh, 8 for any other and 32
//     for all others; 1,024 admitted connections, 512 that we have dialled for packets. No message is decompressed, and
//     a decoder sees no more of one than a single value may have.
//   - No key is ever shown.
//   - A proof has at most 8 KiB. After 8 invalid ones the other proofs of a message are not checked.
//   - Each cluster has its label, which is authenticated when there are keys or TLS. With TLS nothing is read from a
//     peer that has not shown a certificate; with keys nothing is accepted in the clear.
//
// # Forgetting
//
// A lost node is forgotten by time (Config.ForgetAfter) or by command (Forget). Each process counts the time since it
// lost the node itself. For a node that it never saw it takes the time that others report with the node, so that this
// time only grows, no matter how often the node is reported and who restarts meanwhile. A node whose state is evidence
// of a cluster (UseEvidence) is forgotten by time only while this node is part of one (Settle): a blank node might
// otherwise found a cluster that exists. Forgotten by time means hidden and no longer reported; its address is still
// tried, so that a mesh that was partitioned for days heals. A command spreads as a tombstone that names the last word
// known by then: a later word counts, and a process that is heard alive counts at once. At most 64 tombstones are kept,
// for 7 days, and only in memory. Times and tombstones travel in a push/pull.
//
// # Twins
//
// Two live processes with one node name are a mistake: a copied machine, or a wrong configuration. The one that this
// process heard first counts as long as it is live, so that a copy cannot take the name from the node that serves, not
// even for a moment. Of two that are heard within 2 s of each other, as by a process that has just joined, the one that
// was started first counts. The other is not asked, and not reported to anyone; its questions are answered, and
// Problems names it. When the one that counts is lost, the other counts at once, with what it said last, and needs no
// restart. Two processes cannot listen at one address: there the later one is a restart, and counts at once.
//
// Each process decides for itself which of them counts. Two processes can disagree, for example after one of them was
// partitioned from the node for more than 5 s; they agree again when one of the twins is gone. So gossip never says who
// is connected or who leads: raft does.
//
// # Transport
//
// With UseTLS every byte goes over TLS 1.3 connections on which both sides show a certificate of the mesh (tls.go,
// transport.go). Each stream has a connection of its own. The packets to one address share one (link.go), which is
// dialled when the first is due and closed after 30 s without one. Sending a packet never blocks: at most 64 wait for a
// connection, and any more are lost, as they would be over UDP. Certificates and authorities are read at each
// handshake, and open connections are checked again every minute. memberlist does not say whom a message is from, so
// the speaker's name goes before what is for the delegates (guard.go). A node may say anything about who is live.
//
// # Observers
//
// An observer (observer.go) is a client. It dials one node, over TLS in every mode, and says who it is and which
// cluster it wants to hear. The node (audience.go) tells it all words, with their proofs, at once and whenever one
// changes, and writes an empty frame every second. So the observer notices within 3 s that its node is dead, and goes
// to another one; after 5 s without any it takes all nodes for lost. It checks the proofs itself. Who is live it knows
// only from its node, so every 3 to 9 s it tries the nodes that its own does not hear, and goes to one that hears more.
//
// Where the mesh has no TLS, observers and nodes show each other certificates that are derived from the keys of
// Config.KeyFile: who has a key can make one. Without keys anyone can, and it protects nothing. A process with an
// observer's certificate is refused wherever nodes speak.
//
// # Whose word counts
//
// With TLS the facts of a node (its Meta and its state) count only if its certificate proves them (proof.go): each word
// carries a signature, with the certificate's key, of cluster, Meta, number and state. That it comes from its speaker,
// over a connection with that node's certificate, is not enough: a node that has just joined hears of a lost node only
// from others, and that node's facts may keep it from founding. A proof is checked once, when its word is news, and
// counts as long as the certificate does.
//
// A process counts for a node only once it has said so itself; until then only memberlist knows it. A question is asked
// of, and answered to, only the node whose certificate is at the other end. What others may know better than the node
// itself is not proven: that it is live, suspect or gone, where it gossips, since when it is lost, and that an operator
// had it forgotten.
//
// A certificate names the node and not its slot: it is issued before there is a slot, and by the node itself, which has
// the authority's key, so that a slot in it would be worth no more than its word. Members prove slots to each other. A
// certificate of the operator's that names no node (Speaker.Node is "") speaks for any.
//
// Without TLS the packets go over UDP and the streams over TCP, in the clear, or under the keys of Config.KeyFile:
// memberlist's own keyring, which follows the file (keys.go).
//
// # Timings
//
// They are for a LAN. Each node probes another every 0.5 s, waits 0.3 s for a packet and 0.2 s more for a detour
// through others or over TCP; then the node is suspect for 2.5 s (3.25 s among 20 nodes), in which it may object. So a
// killed process counts as lost after 3 to 5 s, while one that is stopped for 2 s objects in time and stays live. A
// clean end is known within 0.5 s. Published states arrive in milliseconds; one whose stream was lost follows by
// push/pull, every 2 s. Seeds and lost nodes are tried again after 0.2 s, then less and less often: every 3 s while
// alone, every 3 to 9 s in company, forever. That also heals a mesh that was partitioned for longer than memberlist
// remembers. A lookup of the seeds takes at most 3 s, and so do the function of UseSeeds; one that does not return
// delays a single attempt.
//
// # The resolver
//
// Peer URLs hold names, <slot>.<cluster>.<domain>, that never change. A Resolver makes a net.Resolver
// whose connections lead back into this process: our names, and the reverse names of our addresses, are
// answered from a table with TTL 0; every other query goes, byte for byte, to the nameserver it was
// meant for. Our names never leave the process, not even with a search domain appended, and an unknown
// name in our zone does not exist at once, instead of after a nameserver's timeout. The table belongs to
// the caller, who decides whose address is right.
//
// # Dangers
//
//   - Without TLS and keys anyone who reaches the port can say anything, including that a node is dead. With a key
//     anyone who has it can. With TLS anyone who has a node's certificate can say anything in that node's name, and of
//     others only whether they are live. It can also attract observers, and keep news from them.
//   - With keys a recorded message can be replayed. One about a live process is older than what is known and changes
//     nothing; one about a process that is gone, and forgotten by memberlist, makes it live for some seconds, and known
//     again if it was forgotten; a question is answered again, to the process that asked it. So an answer must not do
//     what may be done only once.
//   - memberlist trusts bytes before it has authenticated them; guard.go looks at them first. It depends
//     on memberlist's format: after an update they may refuse everything, which the tests would show.
//   - With TLS, clocks matter: a node whose clock is outside the life of the others' certificates hears nobody.
//   - A TCP connection that stalls holds up what is queued behind it. Linux gives one up after 2 s without an
//     acknowledgement (patience_linux.go); elsewhere a mesh that was partitioned may need longer to heal.
//   - memberlist calls the delegate under its own lock: code there must neither block nor call back.
//   - memberlist reports what it refuses only in its log. logs.go reads those lines; the tests provoke
//     them (all but the one about blocked UDP), so that an update that rewords them is noticed.
//   - The start time must rise from process to process of a node, whatever its clock says: the latest one supersedes all
//     others at its address until it is forgotten by command. Problems names those that it keeps from counting.
//   - A node that is killed and started again at another address within 5 s counts when the old process is noticed to
//     be gone.
//   - A line in /etc/hosts wins over DNS, and so over us: Check looks for it. etcd's dialers cannot be given a resolver
//     that skips the file; only nsswitch.conf can ("hosts: dns files"). Where a cluster is taken over such lines are
//     common, so Stale reports only those that contradict what is known.
//   - net.DefaultResolver is one per process: two clusters in one process cannot each have their own.
package gossip
