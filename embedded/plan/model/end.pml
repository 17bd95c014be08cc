/* Three voters, one store: how a generation ends (R5, R16-R19), and how it does not.
 *
 * Every atomic block is one step, and any other step may come before the next one. Sets of voters are masks: voter i
 * is the bit 1<<i. A voter is in one of the sets runs, off, stop, entered, w, kept, join, dead.
 *
 * Time: nothing is counted. A member is able when it has had a leader, and has reached the store, for as long as a
 * poll, a timeout and an abort take together. As L is longer than twice that, two things are assumed and no more:
 * a member does not become able before it has acted on what the store holds, and L is not over for a node while
 * somebody has still to abort who could do so all the time since that node read the proposal.
 *
 * A node can be cut from the store (cut) or from its peers (alone) at any time, and comes back at any time. A
 * conclusion can be put now, or land later, or never. An abort that lands later is one more operator who aborts.
 *
 * The properties. ONLY=n checks one of them; without it all are checked.
 *
 *   1  no leaderless conclusion while a member is able
 *   2  two generations acknowledge writes at the same time only if a voter that still votes was named lost, and none
 *      of those that still vote is able, or started when it could read the conclusion. Of a recovery: only if a
 *      majority was named lost that still votes; without the store: only if every voter that still votes was
 *   3  nobody gives up its data, and no member with a leader stops, but for a conclusion; with a leader only with its
 *      consent, or when it was not able
 *   4  a proposal has one outcome; so a generation has one child in the store
 *   5  no dead end: when failures are over, a generation serves, or an operator's next commands make one serve (FINAL)
 *   6  a led conclusion has a consent that an operator confirmed on a node of the cluster, and is sent by a leader
 *
 * FINAL adds the last failures and property 5, STORELESS recoveries without the store, REPEAT proposals that name any
 * voters. What else is defined breaks the protocol: the table in model_test.go lists it.
 */
#ifdef ONLY
#define CHECK(n) (ONLY==n)
#else
#define CHECK(n) (true)
#endif
#ifndef K
#define K 2          /* attempts */
#endif
#define KF (K+4)     /* with those of the operator at the end */
#ifndef CR
#define CR 1         /* crashes */
#endif

/* the store */
byte att;            /* the newest attempt; 0 none */
byte out;            /* its outcome: 0 none, ABORTED, CONCLUDED */
bool led, recov;     /* the proposal; what is not led is leaderless, what is not a recovery is a restore */
byte lost, quoted;   /* voters named lost, and whose objections it quotes */
byte surv;           /* of a recovery: the survivor */
bool pc;             /* a conclusion was sent and may land yet */
byte obj;            /* who has objected: the outcomes of all attempts tell */
bool mirror;         /* a record without proposal and outcome, put by another cluster; its gossip tells the same */
#define ABORTED 1
#define CONCLUDED 2
#define OPEN  (att>0 && out==0)
#ifdef TWOOBJECTS
#define CONC  ((out & CONCLUDED)!=0)
#else
#define CONC  (out==CONCLUDED)
#endif

/* the old generation's keyspace, and an operator's word on one of its nodes */
bool consent, confirmed;

/* the voters */
byte runs = 7;       /* the old member runs */
byte off;            /* crashed, may start again */
byte stop;           /* the process waits, the old member does not run */
byte entered;        /* entered the child of the store */
byte w;              /* concluded without the store, on its own disk */
byte kept;           /* has no seat in the child: stopped, its data in place */
byte join;           /* its data set aside */
byte dead;           /* gone with its disk, provably */
byte left1, left2;   /* durable: left for the newest proposal, for an older one */
byte clk;            /* has read the newest, leaderless proposal and had no leader since */
byte able;
byte cut, alone;
byte late;           /* runs although it could read a conclusion when it started */
byte wlost;          /* named lost without the store */
byte m_;             /* a scratch */
byte with[4];        /* since i has read the proposal these could have aborted it, without a break */
byte oclk;           /* the holders of blank disks (3): 1 have read it, 2 L is over */
byte crashes;
bool served;         /* the child has served, and has somebody to replicate to */
bool final, broken, repaired;
byte island;
#ifdef CONSENTSTOPS
byte ended;
#endif
#ifdef STRICT19
byte away;           /* could not read the store for as long as L */
#endif

#define MAJ(m)   ((m)==3 || (m)==5 || (m)==6 || (m)==7)
#define NUM(m)   (((m)&1) + (((m)>>1)&1) + (((m)>>2)&1))
#define CONN     (runs & ~alone)
#define LED(b)   (MAJ(CONN) && (CONN & b))        /* has a leader: a linearizable read is answered */
#define HAS(m,b) (((m) & (b))!=0)

#ifdef LEDLOST
#define BLANK    (NUM(lost))
#else
#define BLANK    (led -> 0 : NUM(lost))           /* blank disks may have the seats of lost voters */
#endif
#define CHILD    (CONC && (recov -> HAS(entered,surv) || HAS(w,surv) : NUM(entered)+BLANK>=2))

#ifdef NOOBJECT
#define TOABORT  0
#else
#define TOABORT  (OPEN -> (led -> lost : 7) : 0)  /* members who abort it if they have a leader */
#endif
/* of all those who reach the store: who aborts the leaderless proposal, of voters with a leader and of those without */
#ifdef NOOBJECT
#define ACTS(m)  0
#elif defined(NOLONE)
#define ACTS(m)  (~cut & (m))
#else
#define ACTS(m)  (~cut & ((m) | (runs & lost & ~quoted)) & 7)
#endif
#ifdef SHORTL
#define LOVER(i) (true)
#else
#define LOVER(i) (with[i]==0)
#endif
#if defined(OBJECTALWAYS)
#define OBJECTS(b) HAS(lost,b)
#elif defined(NOLONE)
#define OBJECTS(b) (false)
#else
#define OBJECTS(b) HAS(lost & ~quoted,b)
#endif
#ifdef STRICT19
#define HEEDS(b) (led -> consent : HAS(away,b))
#else
#define HEEDS(b) (!led || consent)
#endif

#ifdef NOLEAVE
#define GONE     (left1|clk|entered|w|dead|lost)
#elif defined(LEFTANY)
#define GONE     (left1|left2|entered|w|dead|lost)
#else
#define GONE     (left1|entered|w|dead|lost)
#endif
#define FENCE    (recov -> GONE==7 : MAJ(GONE))

/* the old generation has a majority, and what was named lost does not excuse it */
#ifdef NAMED
#define UNNAMED  (!MAJ(CONN & lost))
#else
#define UNNAMED  (recov -> !MAJ(CONN & lost) : (CONN & lost)==0)
#endif

inline forget() { d_step { oclk = 0; clk = 0; with[0] = 0; with[1] = 0; with[2] = 0; with[3] = 0 } }
inline read(i) { d_step { m_ = ACTS((MAJ(CONN) -> CONN : 0)); with[i] = m_; m_ = 0 } }
/* what had to last without a break */
inline settle() {
  d_step {
    m_ = (MAJ(CONN) -> CONN : 0);
    clk = clk & ((runs & ~m_)|w);
    able = able & m_ & ~cut;
    m_ = ACTS(m_);
    with[0] = (HAS(clk,1) -> with[0] & m_ : 0);
    with[1] = (HAS(clk,2) -> with[1] & m_ : 0);
    with[2] = (HAS(clk,4) -> with[2] & m_ : 0);
    with[3] = with[3] & m_; m_ = 0
  }
}
inline abort() {
#ifdef TWOOBJECTS
  out = out | ABORTED
#else
  out = ABORTED
#endif
  ; pc = false; forget()
}
inline land() {
  if :: !led -> assert(!CHECK(1) || able==0)
     :: led  -> assert(!CHECK(6) || (consent && confirmed)) fi;
#ifdef TWOOBJECTS
  out = out | CONCLUDED;
#else
  out = CONCLUDED;
#endif
  pc = false; forget()
}
inline conclude() {
  if :: land()
     :: !final -> pc = true fi
}
inline propose(isled, isrec, sv, who) {
  d_step { att++; out = 0; led = isled; recov = isrec; surv = sv; lost = who;
  left2 = left2 | left1; left1 = 0;
  consent = false; confirmed = false; pc = false }; forget()
}
/* a voter does what the conclusion says */
inline follow(b) {
  assert(!CHECK(3) || (CONC && (!LED(b) || (led && consent) || (!led && !HAS(able,b)))));
  runs = runs & ~b; stop = stop & ~b; left1 = left1 & ~b; left2 = left2 & ~b; late = late & ~b;
  if :: CONC && !HAS(lost,b) && (!recov || surv==b) -> entered = entered | b
#ifdef ASIDEATONCE
     :: else -> join = join | b
#else
     :: else -> kept = kept | b
#endif
  fi;
  settle()
}

inline storeless(b) {
  runs = runs & ~b; stop = stop & ~b; left1 = left1 & ~b; left2 = left2 & ~b; w = b;
#ifdef SOMENAMED
  if :: wlost = (b==1 -> 2 : 1) :: wlost = (b==4 -> 2 : 4) fi;
#else
  wlost = 7 & ~b;
#endif
  settle()
}

proctype Voter(byte b) {
end:

  do
  /* ---- time passes with a leader and the store, and everything in the store was acted on */
  :: atomic { LED(b) && !HAS(cut|able,b) && !HAS(TOABORT,b) && !(CONC && HEEDS(b)) -> able = able | b }
  /* ---- with a leader: abort what calls the generation leaderless, or me lost */
  :: atomic { LED(b) && !HAS(cut,b) && HAS(TOABORT,b) -> abort() }
  /* ---- without: object once, */
#ifndef NOOBJECT
  :: atomic { HAS(runs,b) && !LED(b) && !HAS(cut,b) && OPEN && !led && OBJECTS(b) -> obj = obj | b; abort() }
#endif
  /* ---- or leave L later */
  :: atomic { HAS(runs|w,b) && !LED(b) && !HAS(cut|clk|left1,b) && OPEN && !led && !(HAS(runs,b) && OBJECTS(b)) ->
       clk = clk | b; read(b>>1) }
  :: atomic { HAS(clk & runs,b) && LOVER(b>>1) -> runs = runs & ~b; stop = stop | b; left1 = left1 | b; settle() }
  :: atomic { HAS(clk & w,b) && LOVER(b>>1) -> clk = clk & ~b; left1 = left1 | b; settle() }
  /* ---- stopped: only the store's word ends it */
#ifdef CONSENTSTOPS
  :: atomic { LED(b) && consent && OPEN ->
       runs = runs & ~b; stop = stop | b; ended = ended | b; settle() }
  :: atomic { HAS(stop & ~ended,b) && !HAS(cut,b) && !CONC && !HAS(left1,b) && (HAS(left2,b) || !mirror) ->
#else
  :: atomic { HAS(stop,b) && !HAS(cut,b) && !CONC && !HAS(left1,b) && (HAS(left2,b) || !mirror) ->
#endif
       left2 = left2 & ~b; stop = stop & ~b; runs = runs | b; settle() }
  :: atomic { HAS(stop & left1,b) && !HAS(cut,b) && out==ABORTED ->
       left1 = left1 & ~b; stop = stop & ~b; runs = runs | b; settle() }
  :: atomic { HAS(stop,b) && !HAS(cut,b) && CONC -> follow(b) }
  /* ---- running: a conclusion */
  :: atomic { HAS(runs,b) && !LED(b) && !HAS(cut,b) && CONC -> follow(b) }
  :: atomic { LED(b) && !HAS(cut|able,b) && CONC && HEEDS(b) -> follow(b) }
  :: atomic { LED(b) && !HAS(cut,b) && CONC && led && consent -> follow(b) }
  /* ---- the store is away: heirs */
#ifndef NOHEIRS
  :: atomic { HAS(runs|stop,b) && !LED(b) && HAS(cut,b) && MAJ(entered) -> follow(b) }
#endif
#ifdef ANYPEER
  :: atomic { HAS(runs|stop,b) && !LED(b) && HAS(cut,b) && mirror -> follow(b) }
#endif
#ifdef RECORDALONE
  :: atomic { HAS(runs,b) && !HAS(cut,b) && mirror -> follow(b) }
#endif
#ifdef STRICT19
  :: atomic { HAS(cut,b) && !HAS(away,b) -> away = away | b }
  :: atomic { !HAS(cut,b) && HAS(away,b) && !CONC -> away = away & ~b }
#endif
  /* ---- no seat: the data is set aside once the child serves, if its log is not beyond the survivor's */
  :: atomic { HAS(kept,b) && CHILD && !HAS(cut,b) && !final -> kept = kept & ~b; join = join | b; served = true }
  /* ---- start: the store first, for a bounded time */
  :: atomic { HAS(off,b) -> off = off & ~b;
       if :: HAS(left1|left2,b) -> stop = stop | b
#ifdef RECORDIGNORED
          :: !HAS(left1|left2,b) && !HAS(cut,b) && CONC -> stop = stop | b
          :: !HAS(left1|left2,b) && (HAS(cut,b) || !CONC) -> runs = runs | b
#elif defined(NOWAIT)
          :: !HAS(left1|left2,b) -> runs = runs | b;
               if :: CONC && !HAS(cut,b) -> late = late | b :: else fi
#else
          :: !HAS(left1|left2,b) && !HAS(cut,b) && (CONC || mirror) -> stop = stop | b
          :: !HAS(left1|left2,b) && (HAS(cut,b) || (!CONC && !mirror)) -> runs = runs | b
#endif
       fi; settle() }
  /* ---- the leader: consent, then conclude */
#ifdef ANYCONSENT
  :: atomic { LED(b) && !HAS(cut,b) && OPEN && led && !consent -> consent = true }
#else
  :: atomic { LED(b) && !HAS(cut,b) && OPEN && led && !consent && confirmed -> consent = true }
#endif
#ifdef ANYCONCLUDES
  :: atomic { HAS(runs|stop,b) && !HAS(cut,b) && OPEN && led && consent && !pc ->
       assert(!CHECK(6) || LED(b)); conclude() }
#else
  :: atomic { LED(b) && !HAS(cut,b) && OPEN && led && consent && !pc ->
       assert(!CHECK(6) || LED(b)); conclude() }
#endif
  /* ---- without a leader: conclude behind the fence */
  :: atomic { HAS(left1,b) && HAS(stop|w,b) && !HAS(cut,b) && OPEN && !led && !pc &&
              FENCE && !HAS(lost,b) && (!recov || surv==b) -> conclude() }
  /* ---- without the store: an operator names all others lost */
#ifdef STORELESS
  :: atomic { !final && w==0 && HAS(cut,b) && HAS(runs|stop,b) && !LED(b) -> storeless(b) }
#endif
  /* ---- and its record is put later, like any proposal */
  :: atomic { HAS(w,b) && !HAS(cut,b) && (att==0 || out==ABORTED) && att<K ->
       propose(false, true, b, 7 & ~b); quoted = obj
#ifdef PUTDIRECT
       ; land()
#endif
     }
  od
}

/* Two operators, and a machine with blank disks that shares the store. The voters are alike, so it is no loss that the
 * first proposal names them in this order; REPEAT=1 has the later ones name any. */
proctype Operators() {
  byte l, s; bool q;
end:
  do
  :: atomic { !final && att<K && (att==0 || out==ABORTED) ->
       if :: l = 0 :: l = 4 :: l = 6 :: l = 7
#ifdef REPEAT
          :: att>0 -> if :: l = 1 :: l = 2 :: l = 3 :: l = 5 fi
#endif
       fi;
       if :: q = false :: obj!=0 -> q = true fi;
       if :: propose(false, false, 0, l)
          :: !HAS(l,1) -> propose(false, true, 1, l)
#ifdef REPEAT
          :: att>0 && !HAS(l,2) -> propose(false, true, 2, l)
          :: att>0 && !HAS(l,4) -> propose(false, true, 4, l)
#endif
#ifdef LEDLOST
          :: propose(true, false, 0, l)
#else
          :: l==0 && !q -> propose(true, false, 0, 0)
#endif
       fi;
       quoted = (q -> obj : 0); l = 0; q = false }
  :: atomic { !final && OPEN && led && !confirmed && runs!=0 -> confirmed = true }
  :: atomic { !final && OPEN -> abort() }
#ifdef TWOOBJECTS
  :: atomic { !final && out==CONCLUDED -> abort() }      /* it was sent before, and lands now */
  :: atomic { out==(ABORTED|CONCLUDED) && CHECK(4) -> assert(false) }
#endif
  :: atomic { pc -> if :: OPEN -> land() :: pc = false fi }
  :: atomic { OPEN && !led && !recov && MAJ(lost) && oclk==0 -> oclk = 1; read(3) }
  :: atomic { OPEN && oclk==1 && LOVER(3) -> oclk = 2; with[3] = 0 }
  :: atomic { OPEN && oclk==2 && !pc -> conclude() }
  :: atomic { !final && !mirror -> mirror = true }
#ifdef FINAL
  /* ---- nothing moves, nothing serves: the operator's next command */
  :: atomic { timeout && final && !MAJ(CONN) && !CHILD && (entered|w)==0 && !repaired && !(served && join!=0) &&
              ((runs|stop|kept|join) & ~island)!=0 && CHECK(5) ->
       l = (runs|stop) & ~island;
       s = (HAS(l,1) -> 1 : (HAS(l,2) -> 2 : 4));
       if :: !broken && mirror -> mirror = false
          :: !broken && !mirror && OPEN -> abort()
          :: !broken && !mirror && !OPEN && !CONC && l!=0 && att<KF ->
               propose(false, true, s, dead|island); quoted = obj
          :: CONC && kept!=0 -> repaired = true
          :: broken && l!=0 && !(CONC && kept!=0) -> storeless(s)
          :: else -> assert(false)
       fi; l = 0; s = 0 }
#endif
  od
}

proctype World() {
  byte b;
end:
  do
  :: atomic { !final -> if :: b = 1 :: b = 2 :: b = 4 fi;
       if :: cut = cut ^ b
          :: alone==0 -> alone = b
          :: alone==0 && b==1 -> alone = 7
          :: alone!=0 && b==1 -> alone = 0
          :: crashes<CR && HAS(runs|stop,b) -> crashes++;
               runs = runs & ~b; stop = stop & ~b; off = off | b; late = late & ~b;
#ifdef FORGETLEFT
               left1 = left1 & ~b; left2 = left2 & ~b
#endif
       fi; b = 0; settle() }
  /* ---- what must never be */
  :: atomic { CHECK(2) && MAJ(CONN) && CHILD && !HAS(w,surv) &&
              (UNNAMED || (CONN & (able|late))!=0) -> assert(false) }
  :: atomic { CHECK(2) && MAJ(CONN) && w!=0 && (CONN & ~wlost)!=0 -> assert(false) }
#ifdef FINAL
  /* ---- the last failures: one or two disks, the store, and the peers of one node or of all */
  :: atomic { !final -> final = true;
       if :: b = 0 :: b = 1 :: b = 2 :: b = 4 :: b = 3 :: b = 5 :: b = 6 fi;
       dead = b; runs = runs & ~b; off = off & ~b; stop = stop & ~b; entered = entered & ~b; w = w & ~b;
       kept = kept & ~b; join = join & ~b;
       if :: cut = 0 :: cut = 7; broken = true fi;
       if :: alone = 0 :: alone = 7 :: alone = 1; island = 1 :: alone = 2; island = 2 :: alone = 4; island = 4 fi;
       b = 0; settle() }
#endif
#ifdef WITNESS
  :: atomic { (WITNESS==1 && CHILD && led) || (WITNESS==2 && CHILD && recov && lost==0) ||
              (WITNESS==3 && CHILD && (quoted & kept)!=0) || (WITNESS==4 && CHILD && MAJ(CONN)) ||
              (WITNESS==5 && CONC && HAS(w,surv)) || (WITNESS==6 && left2!=0 && MAJ(CONN)) ||
              (WITNESS==7 && repaired) -> assert(false) }
#endif
  od
}

init { atomic { run Voter(1); run Voter(2); run Voter(4); run Operators(); run World() } }
