/* One volume, N nodes: the claim protocol of package ebs around AttachVolume as the arbiter.
 *
 * Every atomic block is one step, and a step of one node may come at any time between those of the others: a
 * paused process is one that is not scheduled. Reads of the tag are havoc, any value at all, unless TAGREG is
 * set. What is checked is noone(): when a node begins to serve, no other serves.
 *
 * The protocol is put together, and broken, by what is defined (spin -D...):
 *
 *   RELEASE     a holder may release: stop, then DetachVolume, which may be executed late; then anything
 *   MARK        no attach and no adoption before the detach that was sent is known to be executed
 *   JOURNAL     the release as package ebs does it: the request is journaled before it is sent and may be
 *               repeated; detaching takes time; an entry ends with an answer, or when it is too old (A4)
 *   TAKESTOP    takeover: stopped; a node may detach the volume of an instance it has read as stopped
 *   BOUNDED     and no time passes between looking at that instance and the detach being executed
 *   TAGREG      reads of the tag return the truth or one older value, and SETTLE is long enough for the truth
 *
 * The mutants, each of which must be found:
 *
 *   NOARB       no AttachVolume: whoever reads his claim back serves, the tag is the lock
 *   STALEADOPT  adopts what DescribeVolumes says is attached here, and does not look for the device
 *   FORCE       somebody detaches the volume of an instance that runs (by hand, or because a lease has ended)
 *   LATESEIZE   with BOUNDED: only the decision is, the request to detach may be executed late
 *   ADOPTONLY   with JOURNAL: the journal keeps from adopting, not from attaching anew
 *   REFUSEDENDS with JOURNAL: a repeated detach that is refused ends the entry of one that was accepted
 *   ANYANSWER   with JOURNAL: the answer of one detach ends the entry, also that of an earlier one
 *   FORGETFUL   with JOURNAL: the journal does not survive a restart of the instance
 *
 * WITNESS fails when a node serves after another one has: that it can be reached is why a pass means something.
 */
#ifndef N
#define N 2
#endif
#define OFF 0
#define INIT 1
#define CLAIM 2
#define SETTLE 3
#define REREAD 4
#define ATTACH 5
#define WAITDEV 6
#define SERVE 7
#define T_CLAIM 8
#define T_SETTLE 9
#define T_CHECK 10
#define T_DETACH 11
#define R_DETACH 12
#define R_ACCEPTED 13
#define R_REFUSED 14

byte att;            /* 0 free, i+1 attached to i: the truth, which is linearizable (assumption A1) */
byte tag, ctag;      /* the tag, which the last writer wins, and a stale copy */
byte catt;           /* stale copy of att */
byte pc[N];
byte inst[N];        /* 1 running 0 stopped 2 terminated */
byte cinst[N];
bool serving[N];
bool pA[N], pD[N];   /* requests sent, not yet executed by EC2 (delayed, response lost) */
bool mk[N];          /* the release is marked on the node; survives the process */
byte tgt[N];
#ifdef JOURNAL
bool leaving;        /* a detach was executed, and the device is still there */
byte nD[N];          /* detaches without an answer that may yet be executed */
bool un[N];          /* journal: there is one without an answer */
byte before[N];      /* the entry before the request that is being sent: 0 none, 1 answered, 2 not answered */
#define SEND(i) before[i]=(mk[i] -> (un[i] -> 2 : 1) : 0); mk[i]=true; un[i]=true; pc[i]=R_DETACH
#define GONE  { att=0; leaving=false }
#define OLD(i) (nD[i]==0 && !leaving)
#else
#define GONE  { att=0 }
#endif
#ifdef LATESEIZE
bool pS[N];          /* a detach of this stopped instance's volume that may yet be executed */
#endif
#ifdef WITNESS
byte last;           /* who served last */
#endif
byte crashes, stops, forces;
#ifndef CR
#define CR 2
#endif
#ifndef ST
#define ST 2
#endif

#ifdef TAGREG
#define TAGIS(i,v)  (tag==(v) || ctag==(v))
#define TAGNOT(i,v) (tag!=(v) || ctag!=(v))
#else
#define TAGIS(i,v)  (true)
#define TAGNOT(i,v) (true)
#endif

#if defined(MARK) || defined(JOURNAL)
#define MKOK(i) (!mk[i])
#else
#define MKOK(i) (true)
#endif
#ifdef ADOPTONLY
#define MKTAKE(i) (true)
#else
#define MKTAKE(i) MKOK(i)
#endif

inline refresh() { ctag=tag; catt=att; byte k_; for (k_ : 0 .. N-1) { cinst[k_]=inst[k_] } k_=0 }
#ifdef WITNESS
inline noone(i) { assert(last==0 || last==i+1); last=i+1 }
#else
inline noone(i) { byte j_; for (j_ : 0 .. N-1) { assert(j_==i || !serving[j_]) } j_=0 }
#endif

proctype Node(byte i) {
  byte j;
  do
  /* ---- start: what is here comes first */
#ifdef STALEADOPT
  :: atomic { pc[i]==INIT && inst[i]==1 && MKOK(i) && catt==i+1 -> pc[i]=SERVE; noone(i); serving[i]=true }
#else
  :: atomic { pc[i]==INIT && inst[i]==1 && MKOK(i) && att==i+1 -> pc[i]=CLAIM }   /* the device is here: adopt, but claim first */
#endif
  :: atomic { pc[i]==INIT && inst[i]==1 && MKTAKE(i) && (att==0||catt==0) && att!=i+1 -> pc[i]=CLAIM }  /* looks free, which may be stale */
#ifdef TAKESTOP
  :: atomic { pc[i]==INIT && inst[i]==1 && att!=0 && att!=i+1 ->
       tgt[i]=att-1;
       if :: (inst[tgt[i]]==0 || cinst[tgt[i]]==0) -> pc[i]=T_CLAIM
          :: else -> skip fi }
  :: atomic { pc[i]==T_CLAIM -> tag=i+1; pc[i]=T_SETTLE }
  :: atomic { pc[i]==T_SETTLE -> refresh(); pc[i]=T_CHECK }
#if defined(LATESEIZE)
  :: atomic { pc[i]==T_CHECK && TAGIS(i,i+1) && inst[tgt[i]]==0 -> pS[tgt[i]]=true; pc[i]=INIT }
  :: atomic { pc[i]==T_CHECK -> pc[i]=INIT }
#elif defined(BOUNDED)
  :: atomic { pc[i]==T_CHECK && TAGIS(i,i+1) && inst[tgt[i]]==0 -> if :: att==tgt[i]+1 -> att=0 :: else fi; pc[i]=ATTACH }
  :: atomic { pc[i]==T_CHECK -> pc[i]=INIT }
#else
  :: atomic { pc[i]==T_CHECK && TAGIS(i,i+1) && (inst[tgt[i]]==0||cinst[tgt[i]]==0) -> pc[i]=T_DETACH }
  :: atomic { pc[i]==T_CHECK -> pc[i]=INIT }
  :: atomic { pc[i]==T_DETACH -> if :: att==tgt[i]+1 -> att=0 :: else fi; pc[i]=ATTACH }
#endif
#endif
  :: atomic { pc[i]==CLAIM -> tag=i+1; pc[i]=SETTLE }
  :: atomic { pc[i]==SETTLE -> refresh(); pc[i]=REREAD }
#ifdef NOARB
  :: atomic { pc[i]==REREAD && TAGIS(i,i+1) -> pc[i]=SERVE; noone(i); serving[i]=true }
#else
  :: atomic { pc[i]==REREAD && TAGIS(i,i+1) -> pc[i]=ATTACH }
#endif
  :: atomic { pc[i]==REREAD && TAGNOT(i,i+1) && att!=i+1 -> pc[i]=INIT }   /* the claim is lost: back off */
  /* ---- AttachVolume: executed now or later, and there may be no answer */
  :: atomic { pc[i]==ATTACH && att==i+1 -> pc[i]=WAITDEV }
  :: atomic { pc[i]==ATTACH && att==0 -> att=i+1; if :: pc[i]=WAITDEV :: pc[i]=INIT fi }
  :: atomic { pc[i]==ATTACH && att!=0 && att!=i+1 -> pc[i]=INIT }          /* VolumeInUse */
  :: atomic { pc[i]==ATTACH && !pA[i] -> pA[i]=true; pc[i]=INIT }          /* no answer, may yet be executed */
  /* ---- the device with the right serial is here: serve. The attachment beats the tag, which is rewritten */
  :: atomic { pc[i]==WAITDEV && att==i+1 -> tag=i+1; pc[i]=SERVE; noone(i); serving[i]=true }
  :: atomic { pc[i]==WAITDEV && att!=i+1 -> pc[i]=INIT }
  /* ---- watch: the device is gone: stop, however late */
  :: atomic { pc[i]==SERVE && att!=i+1 -> serving[i]=false; pc[i]=INIT }
#if defined(JOURNAL)
  :: atomic { pc[i]==SERVE && att==i+1 -> serving[i]=false; SEND(i) }
  :: atomic { pc[i]==R_DETACH && att==i+1 -> leaving=true; pc[i]=R_ACCEPTED }
  :: atomic { pc[i]==R_DETACH && nD[i]<2 -> nD[i]++; before[i]=0; pc[i]=INIT }   /* no answer, may yet be executed */
  :: atomic { pc[i]==R_DETACH -> pc[i]=R_REFUSED }                 /* certainly not executed */
#ifdef ANYANSWER
  :: atomic { pc[i]==R_ACCEPTED -> un[i]=false; before[i]=0; pc[i]=INIT }
#else
  :: atomic { pc[i]==R_ACCEPTED -> un[i]=(before[i]==2); before[i]=0; pc[i]=INIT }
#endif
#ifdef REFUSEDENDS
  :: atomic { pc[i]==R_REFUSED -> un[i]=(before[i]==2); mk[i]=(before[i]==2); before[i]=0; pc[i]=INIT }
#else
  :: atomic { pc[i]==R_REFUSED -> un[i]=(before[i]==2); mk[i]=(before[i]!=0); before[i]=0; pc[i]=INIT }
#endif
  /* settling: an entry ends when the device is gone, or the request is too old; until then it is sent again */
  :: atomic { pc[i]==INIT && inst[i]==1 && mk[i] && (un[i] -> OLD(i) : att!=i+1) -> mk[i]=false; un[i]=false }
  :: atomic { pc[i]==INIT && inst[i]==1 && mk[i] && att==i+1 -> SEND(i) }
#elif defined(RELEASE)
  :: atomic { pc[i]==SERVE && att==i+1 -> serving[i]=false; mk[i]=true; pc[i]=R_DETACH }
  :: atomic { pc[i]==R_DETACH -> if :: att==i+1 -> att=0; mk[i]=false :: pD[i]=true :: att!=i+1 -> mk[i]=false fi; pc[i]=INIT }
#endif
  od
}

active proctype EC2() {
  byte k;
  do
  :: atomic { select(k : 0 .. N-1);
      if
      :: pA[k] && att==0 && inst[k]!=2 -> att=k+1; pA[k]=false
      :: pA[k] && (att!=0 || inst[k]==2) -> pA[k]=false
      :: pD[k] -> if :: att==k+1 -> att=0 :: else fi; pD[k]=false; mk[k]=false
#ifdef JOURNAL
      :: nD[k]>0 -> nD[k]--; if :: att==k+1 -> leaving=true :: else fi
      :: nD[k]>0 -> nD[k]--                                  /* never executed, or refused */
      :: leaving && att==k+1 -> GONE
#endif
#ifdef LATESEIZE
      :: pS[k] -> if :: att==k+1 -> att=0 :: else fi; pS[k]=false
#endif
      :: inst[k]==2 && att==k+1 -> GONE                      /* terminated: AWS detaches */
      :: crashes<CR && inst[k]==1 && pc[k]!=INIT -> crashes++; pc[k]=INIT; serving[k]=false
      :: stops<ST && inst[k]==1 -> stops++; inst[k]=0; pc[k]=OFF; serving[k]=false
      :: inst[k]==0 -> inst[k]=1; pc[k]=INIT;
#ifdef FORGETFUL
           mk[k]=false; un[k]=false
#endif
      :: stops<ST && inst[k]!=2 -> stops++; inst[k]=2; pc[k]=OFF; serving[k]=false
#ifdef FORCE
      :: forces<1 && att!=0 -> forces++; att=0
#endif
      :: else -> skip
      fi; k=0 }
  :: atomic { (ctag!=tag || catt!=att) -> ctag=tag; catt=att }
  od
}

init { atomic { byte i; for (i : 0 .. N-1) { pc[i]=INIT; inst[i]=1; cinst[i]=1 }
       for (i : 0 .. N-1) { run Node(i) } i=0 } }
