/* Two volumes and two nodes: no instance has two volumes of the cluster mounted (I4), and no two nodes serve
 * one volume (I1, I3). Of the arbiter and of releases claim.pml knows more; here the tag is left out (every
 * choice that rests on it is havoc), and a detach is sent again only when it is known not to be under way.
 *
 * A node looks at its devices first: it adopts one, and detaches the others, which it unmounts before. With
 * none here it goes on with the attachment that is not settled, else it chooses any volume.
 *
 * What is defined (spin -D...):
 *
 *   EXPIRE     as package ebs does it: an attachment without an answer blocks other volumes for a time only,
 *              and is forgotten when the volume is used. It may be executed later: the volume is then surplus
 *   SPREAD     check besides that no instance is given a second volume, beside what it is giving up
 *
 * The mutants, each of which must be found:
 *
 *   MOUNTALL   mounts whatever device shows up
 *   NOUNMOUNT  detaches a surplus volume that a former life has mounted without unmounting it
 *   NOJOURNAL  detaches a surplus volume without a word in the journal
 *   GOON       with SPREAD: goes on to another volume while an attachment is not settled
 *
 * WITNESS fails when a node serves after it has given up a surplus volume: that can be reached.
 */
#ifndef N
#define N 2
#endif
#define V 2
#ifndef CR
#define CR 1         /* crashes of a process */
#endif
#ifndef ST
#define ST 1         /* restarts and ends of an instance */
#endif
#ifndef LOST
#define LOST 2       /* requests without an answer */
#endif
#define OFF 0
#define LOOK 1
#define ATTACH 2
#define AWAIT 3
#define ADOPT 4
#define SERVE 5
#define MOUNTED 6
#define SHED 7       /* a detach is journaled, and not sent yet */
#define NV (N*V)
#define X(i,v) ((i)*V+(v))

byte att[V];         /* 0 free, i+1 attached to i */
bool leaving[V];     /* a detach was executed, and the device is still there */
bool nA[NV];         /* an attach without an answer that may yet be executed */
bool nD[NV];         /* a detach of that kind */
bool jA[NV], jD[NV]; /* the journal: survives process and instance */
bool mnt[NV];        /* mounted: survives the process */
byte held[N];        /* journal: v+1, held last */
byte pc[N], cur[N];  /* cur: the volume it is about */
byte serving[N];     /* v+1 */
bool dead[N];        /* terminated */
byte crashes, stops, lost;
#ifdef WITNESS
bool shed[N];
#endif

#define HERE(i,v)   (att[v]==i+1)                   /* the device */
#define MINE(i,v)   (HERE(i,v) && !jD[X(i,v)])      /* and it may be adopted */
#define LAST(i,v)   (held[i]==(v)+1 && MINE(i,v))   /* and it was held last */
#define OTHER(v)    (1-(v))
#ifdef GOON
#define FREE(i)     (true)
#else
#define FREE(i)     (!jA[X(i,0)] && !jA[X(i,1)])
#endif
#ifdef EXPIRE
#define FORGET(i,v) jA[X(i,v)]=false
#define MAYEND(i,v) (true)
#else
#define FORGET(i,v) skip
#define MAYEND(i,v) (!HERE(i,v) && !nA[X(i,v)])
#endif

inline give(i,v) {
#ifdef SPREAD
  assert(!MINE(i,OTHER(v)));
#endif
  att[v]=i+1; leaving[v]=false
}
inline domount(i,v) {
  assert(!(mnt[X(i,OTHER(v))] && HERE(i,OTHER(v))));         /* I4 */
  mnt[X(i,v)]=true
}
inline serve(i,v) {
  for (j : 0 .. N-1) { assert(j==i || serving[j]!=v+1) }     /* I1, I3 */
  j=0; serving[i]=v+1; held[i]=v+1; FORGET(i,v); pc[i]=SERVE
}
/* the device of v goes, and with it whatever was mounted from it */
inline gone(v) { mnt[X(att[v]-1,v)]=false; att[v]=0; leaving[v]=false }

proctype Node(byte i) {
  byte v, j;
  bool again;        /* the attachment was asked for before, of which no answer says anything */
  do
  /* ---- what is here comes first; which one, if there are two, is havoc unless one was held last */
  :: atomic { pc[i]==LOOK && (MINE(i,0) || MINE(i,1)) ->
       if
       :: LAST(i,0) -> cur[i]=0
       :: LAST(i,1) -> cur[i]=1
       :: !LAST(i,0) && !LAST(i,1) && MINE(i,0) -> cur[i]=0
       :: !LAST(i,0) && !LAST(i,1) && MINE(i,1) -> cur[i]=1
       fi; pc[i]=ADOPT }
  /* ---- nothing here: the attachment that is not settled, else any */
  :: atomic { pc[i]==LOOK && !MINE(i,0) && !MINE(i,1) && !FREE(i) ->
       if :: jA[X(i,0)] -> cur[i]=0 :: jA[X(i,1)] -> cur[i]=1 fi;
       if :: pc[i]=AWAIT
          :: !jD[X(i,cur[i])] -> again=true; pc[i]=ATTACH
          :: skip fi }
  :: atomic { pc[i]==LOOK && !MINE(i,0) && !MINE(i,1) && FREE(i) && (!jD[X(i,0)] || !jD[X(i,1)]) ->
       if :: !jD[X(i,0)] -> cur[i]=0
          :: !jD[X(i,1)] -> cur[i]=1 fi;
       again=jA[X(i,cur[i])]; jA[X(i,cur[i])]=true; pc[i]=ATTACH }
  /* ---- settling */
  :: atomic { pc[i]==LOOK -> select(v : 0 .. V-1);
       if :: jA[X(i,v)] && MAYEND(i,v) -> jA[X(i,v)]=false
          :: jD[X(i,v)] && !HERE(i,v) && !nD[X(i,v)] -> jD[X(i,v)]=false
          :: jD[X(i,v)] && HERE(i,v) && !nD[X(i,v)] && !leaving[v] -> mnt[X(i,v)]=false; cur[i]=v; pc[i]=SHED
          :: else
       fi; v=0 }
  /* ---- AttachVolume: executed now or later, and there may be no answer */
  :: atomic { pc[i]==ATTACH && att[cur[i]]==0 -> give(i,cur[i]); again=false;
       if :: pc[i]=AWAIT :: lost<LOST -> lost++; pc[i]=LOOK fi }
  :: atomic { pc[i]==ATTACH && lost<LOST && !nA[X(i,cur[i])] -> lost++; nA[X(i,cur[i])]=true; again=false; pc[i]=LOOK }
  :: atomic { pc[i]==ATTACH && att[cur[i]]!=0 ->                  /* VolumeInUse */
       if :: again -> pc[i]=AWAIT
          :: else -> jA[X(i,cur[i])]=false; pc[i]=LOOK
       fi; again=false }
  :: atomic { pc[i]==AWAIT && MINE(i,cur[i]) -> pc[i]=ADOPT }
  :: atomic { pc[i]==AWAIT && !MINE(i,cur[i]) -> pc[i]=LOOK }
  /* ---- a second device: it is given up, unmounted before, and journaled before */
#ifdef MOUNTALL
  :: atomic { pc[i]==SERVE && MINE(i,OTHER(cur[i])) && !mnt[X(i,OTHER(cur[i]))] -> domount(i,OTHER(cur[i])) }
#else
  :: atomic { (pc[i]==ADOPT || pc[i]==SERVE) && MINE(i,OTHER(cur[i])) && !leaving[OTHER(cur[i])] ->
       v=OTHER(cur[i]);
#ifndef NOUNMOUNT
       mnt[X(i,v)]=false;
#endif
#ifndef NOJOURNAL
       jD[X(i,v)]=true;
#endif
       if :: held[i]==v+1 -> held[i]=0 :: else fi;
       FORGET(i,v);
#ifdef WITNESS
       shed[i]=true;
#endif
       if :: leaving[v]=true
          :: lost<LOST && !nD[X(i,v)] -> lost++; nD[X(i,v)]=true
       fi; v=0 }
#endif
  /* ---- mount, then serve; what arrives between the look and the mount is neither seen nor mounted */
  :: atomic { pc[i]==ADOPT && MINE(i,cur[i]) && !(MINE(i,OTHER(cur[i])) && mnt[X(i,OTHER(cur[i]))] && !leaving[OTHER(cur[i])]) ->
       domount(i,cur[i]); pc[i]=MOUNTED }
  :: atomic { pc[i]==MOUNTED -> serve(i,cur[i])
#ifdef WITNESS
       ; assert(!shed[i])
#endif
     }
  :: atomic { pc[i]==ADOPT && !MINE(i,cur[i]) -> pc[i]=LOOK }
  /* ---- the device is gone: stop, however late */
  :: atomic { pc[i]==SERVE && !HERE(i,cur[i]) -> serving[i]=0; pc[i]=LOOK }
  /* ---- release: stop, unmount, journal, detach */
  :: atomic { pc[i]==SERVE && HERE(i,cur[i]) ->
       serving[i]=0; mnt[X(i,cur[i])]=false; jD[X(i,cur[i])]=true; held[i]=0; FORGET(i,cur[i]); pc[i]=SHED }
  :: atomic { pc[i]==SHED && HERE(i,cur[i]) -> leaving[cur[i]]=true; pc[i]=LOOK }
  :: atomic { pc[i]==SHED && lost<LOST && !nD[X(i,cur[i])] -> lost++; nD[X(i,cur[i])]=true; pc[i]=LOOK }
  :: atomic { pc[i]==SHED && !HERE(i,cur[i]) -> pc[i]=LOOK }
  od
}

proctype EC2() {
  byte k, w;
  do
  :: atomic { select(k : 0 .. N-1); select(w : 0 .. V-1);
      if
      :: nA[X(k,w)] && att[w]==0 && !dead[k] -> nA[X(k,w)]=false; give(k,w)
      :: nA[X(k,w)] -> nA[X(k,w)]=false                            /* refused, or never executed */
      :: nD[X(k,w)] -> nD[X(k,w)]=false; if :: att[w]==k+1 -> leaving[w]=true :: else fi
      :: leaving[w] && att[w]==k+1 -> gone(w)
      :: dead[k] && att[w]==k+1 -> gone(w)
      :: w==0 && crashes<CR && pc[k]>LOOK -> crashes++; serving[k]=0; pc[k]=LOOK
      :: w==0 && stops<ST && !dead[k] ->                           /* the instance starts anew, or ends */
           stops++; serving[k]=0; mnt[X(k,0)]=false; mnt[X(k,1)]=false;
           if :: pc[k]=LOOK :: pc[k]=OFF; dead[k]=true fi
      :: else -> skip
      fi; k=0; w=0 }
  od
}

init { atomic { byte i; for (i : 0 .. N-1) { pc[i]=LOOK } for (i : 0 .. N-1) { run Node(i) } run EC2(); i=0 } }
