package plan

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the answers into the story files")

// TestStories plays testdata/*.txt. A story is a list of paragraphs; each is an observation, a line of dashes, and the
// answer. A line of an observation is a noun and its properties (story_end_test.go has more):
//
//	charter X a=d1@1 b=d2@1 c=d3@2#7   a charter and its record, for use by name below (for all later paragraphs)
//	node n1 slots=a,b,c fromhttp=2380 never yields etcd=3.7.3 url=http://{slot}.main:2380   Config; a charter after it has this peer URL
//	claim a d1 epoch=2 lock=l1 mismatch="..." missing="..." drained  or: claim none="..." parked
//	disk promises=X,Y record=X role=founder join=5 started=d1 secured=promised|changed wal=1 cid=X founder=1
//	member running ready leader members=a:1+,b:2* lock=a/n1/drain    + is connected, * is a learner, ! is stuck, ^ has a URL with https, c:3@1f has acknowledged 1f; paused=ops@n1 why="..."
//	peer n2 live slot=b disk=d2 phase=blank promise=X record=X member=2 ...
//	store id=S record=X restore=R attempts=1 request=c1 problem="..." newest=b1@2.1f    generation and revision of the newest backup;
//	                                                                                  or newest=none, or unlisted="..."
//	restore R line=X backup=b1 slots=a,b,c lost=a,b   or: survivor=a disk=d1 log=2.1f; a proposal, for use by name below; its record, once concluded, is X/R
//	witness vol-1 record=X
//	origin etcd-manager cluster=7 member=1 members=a:1,b:2,c:-3 version=3.6.0 obstacle="..."   foreign data on the disk (after it); - never started
//	orders abandon new join alone=R
//	care cure alarm=NOSPACE corrupt=2 revision=9 compacted=5 once fragmented full snapshot lock=b/n2 resting="..."
//	database n2 fragmented full defragging short   what a peer says of its database and its volume
//	room free=90 size=1024 short   MiB of our volume; short: it was before
//	stale   the trusted authorities' files have changed since our member was started; or: stale n2
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var out []string
			r := reader{charters: map[string]Charter{}, restores: map[string]Restore{}}
			for _, paragraph := range strings.Split(strings.TrimSpace(string(src)), "\n\n") {
				told, want, ok := strings.Cut(paragraph+"\n", "----\n")
				if !ok && !*update {
					t.Fatalf("no answer in %q", paragraph)
				}
				o, err := r.read(told)
				if err != nil {
					t.Fatalf("%v in %q", err, paragraph)
				}
				a := Next(o)
				// What a pause holds back is known from Resumed.
				if text, data := without(commands.FindAllString(a.Text(), -1), Command("resume").String()), lines(a.Commands); !slices.Equal(text, data) {
					t.Errorf("the text names the commands %q, and the data %q in\n%s", text, data, told)
				}
				got := answer(a) + "\n"
				if got != want && !*update {
					t.Errorf("story:\n%sgot:  %swant: %s", told, got, want)
				}
				out = append(out, told+"----\n"+got)
			}
			if *update {
				if err := os.WriteFile(file, []byte(strings.Join(out, "\n")), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// answer formats an action as two lines: the kind with the fields that are set, and the reason.
func answer(a Action) string {
	var b strings.Builder
	b.WriteString(string(a.Kind))
	add := func(name string, v any, set bool) {
		if set {
			fmt.Fprintf(&b, " %s=%v", name, v)
		}
	}
	if a.Charter != nil {
		add("charter", a.Charter.ID(), true)
	}
	if a.Record != nil {
		add("record", a.Record.ID, true)
	}
	if a.Restore != nil {
		add("restore", a.Restore.ID, true)
	}
	if a.Kind == Conclude {
		var seats []string
		for _, s := range a.Record.Charter.Seats {
			seats = append(seats, fmt.Sprintf("%s/%s/%x", s.Slot, s.Disk, s.Member))
		}
		add("seats", strings.Join(seats, ","), true)
		add("url", a.Record.Charter.PeerURL, a.Restore == nil && a.Record.Restore != nil && a.Record.Restore.PeerURL != "")
	}
	if a.Request != nil {
		add("request", a.Request.Command+a.Request.By, true)
		add("survivor", a.Request.Survivor, a.Request.Survivor != "")
		add("lost", strings.Join(a.Request.Lost, ","), a.Request.Lost != nil)
	}
	add("mirror", a.Mirror, a.Mirror)
	add("over", a.Over, a.Over)
	add("join", a.Join, a.Join)
	add("node", a.Node, a.Node != "")
	add("slot", a.Slot, a.Slot != "")
	add("disk", a.Disk, a.Disk != "")
	add("member", strconv.FormatUint(a.Member, 16), a.Member != 0)
	add("peers", strings.Join(slices.Sorted(maps.Keys(a.Peers)), ","), a.Peers != nil)
	add("known", strings.Join(a.Known, ","), a.Known != nil)
	if a.Set != nil {
		add("set", fmt.Sprintf("%s#%d", strings.Join(a.Set.Slots, ","), a.Set.Serial), true)
	}
	if a.Secured != nil {
		add("secured", fmt.Sprintf("%s/%t", a.Secured.PeerURL, a.Secured.Changed), true)
	}
	add("url", a.PeerURL, a.PeerURL != "" && a.Kind == Update)
	b.WriteString(ended(a))
	add("revision", a.Revision, a.Revision != 0)
	add("reason", a.Reason, a.Reason != "")
	add("alarm", a.Alarm, a.Alarm != "")
	add("avoid", strings.Join(slices.Sorted(maps.Keys(a.Avoid)), ","), a.Avoid != nil)
	return b.String() + "\n" + a.Text()
}

// commands are those in a text, which must be in the data as well.
var commands = regexp.MustCompile("`holdfast [^`]+`")

func without(all []string, one string) []string {
	return slices.DeleteFunc(all, func(s string) bool { return s == one })
}

func lines(all []Command) (out []string) {
	for _, c := range all {
		out = append(out, c.String())
	}
	return out
}

// secureStory is the https pattern that the members of stories change to.
const secureStory = "https://{slot}.main:2381"

// reader keeps the charters that a story has defined.
type reader struct {
	charters map[string]Charter
	restores map[string]Restore
	o        Observation
	err      error
}

func (r *reader) read(told string) (Observation, error) {
	r.o, r.err = Observation{Node: "n1", Config: Config{Cluster: "main", Slots: []string{"a", "b", "c"}, PeerURL: "https://{slot}.main:2380"}, Store: Store{ID: "S"}}, nil
	for _, line := range strings.Split(told, "\n") {
		words := fields(line)
		if len(words) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		props := map[string]string{}
		for i, w := range words[1:] {
			k, v, ok := strings.Cut(w, "=")
			if !ok {
				props[strconv.Itoa(i)] = w
			}
			props[k] = v
		}
		r.noun(words[0], props)
	}
	if l := r.o.Disk.Ledger; !strings.Contains("\n"+told, "\nstore ") { // by default, it knows what the disk knows
		r.o.Store.Record = l.Record
	}
	return r.o, r.err
}

func (r *reader) noun(noun string, p map[string]string) {
	o := &r.o
	has := func(k string) bool { _, ok := p[k]; return ok }
	switch noun {
	case "charter":
		c := Charter{Cluster: "main", Generation: 1, PeerURL: o.Config.PeerURL}
		for _, k := range slices.Sorted(maps.Keys(p)) {
			if d, e, ok := strings.Cut(p[k], "@"); ok {
				e, id, _ := strings.Cut(e, "#")
				c.Seats = append(c.Seats, Seat{Slot: k, Disk: d, Epoch: r.number(e), Member: r.number(id)})
			}
		}
		r.charters[p["0"]] = c
	case "node":
		o.Node = p["0"]
		if has("slots") {
			o.Config.Slots = strings.Split(p["slots"], ",")
		}
		o.Config.Never, o.Config.Yields, o.Config.Seeded, o.Config.Automatic = has("never"), has("yields"), has("seeded"), has("automatic")
		o.Config.Foreign = has("foreign")
		o.Config.Recovery, o.Config.Adopt, o.Config.FromHTTP = has("recovery"), has("adopts"), p["fromhttp"]
		if has("url") {
			o.Config.PeerURL = p["url"]
		}
		o.Config.Etcd = p["etcd"]
		o.Twin, o.Early, o.Stirred, o.Unable = p["twin"], has("early"), has("stirred"), p["unable"]
		o.Holders = holdersOf(p["holders"])
		r.ending(noun, p, has)
	case "claim":
		o.Parked, o.Drained = has("parked"), has("drained")
		o.Claim = Claim{Held: !has("none"), None: p["none"], Slot: p["0"], Disk: p["1"], Epoch: r.number(p["epoch"]), Mismatch: p["mismatch"], Missing: p["missing"], Lock: p["lock"]}
	case "disk":
		r.disk(p, has)
	case "member":
		o.Member = Member{Running: has("running"), Ready: has("ready"), Removed: has("removed"), Stalled: has("stalled"),
			Defragging: has("defragging"), Status: Status{Leader: has("leader"), HasLead: has("haslead"),
				LeaderID: ID(r.number(p["lead"])), Learner: has("learner"), ClusterVersion: p["cluster"],
				Revision: int64(r.number(p["revision"]))},
			ID: r.number(p["id"]), Members: r.members(p["members"]), Admitted: r.admitted(p["admitted"])}
		if l := strings.Split(p["lock"], "/"); len(l) == 3 {
			o.Member.Lock = &Lock{Slot: l[0], Node: l[1], Purpose: l[2]}
		}
		for _, id := range strings.FieldsFunc(p["near"], func(c rune) bool { return c == ',' }) {
			o.Member.Near = append(o.Member.Near, r.number(id))
		}
		o.Member.Set = r.set(p["set"])
		if has("paused") {
			o.Member.Paused = &Pause{By: p["paused"], Why: p["why"], Since: time.Date(2026, 7, 1, 14, 2, 0, 0, time.UTC)}
		}
		r.ending(noun, p, has)
	case "peer":
		o.Peers = append(o.Peers, r.peer(p, has))
	case "store":
		o.Store = Store{ID: p["id"], Unknown: p["unknown"], Record: r.record(p["record"]), CID: r.cid(p["record"]), Restore: r.restore(p["restore"])}
		o.Store.Newest = r.stand(p)
		o.Store.Managed, o.Store.Returned = p["managed"], has("returned")
		if has("request") {
			o.Store.Requests = []Request{{Command: p["request"], Backup: "b", Problem: p["problem"], Over: has("over")}}
		}
		r.ending(noun, p, has)
	case "restore":
		x := Restore{Cluster: "main", Attempt: 1, ID: "id-" + p["0"], Backup: p["backup"], By: "root"}
		if of := r.record(p["line"]); of != nil {
			x.Generation, x.Line = of.Generation+1, append(slices.Clone(of.Line), of.ID)
		}
		x.Survivor, x.Disk, x.Log = p["survivor"], p["disk"], r.log(p["log"])
		if has("lost") {
			x.Lost = strings.Split(p["lost"], ",")
		}
		if has("slots") {
			x.Slots = strings.Split(p["slots"], ",")
		}
		r.proposal(&x, p, has)
		r.restores[p["0"]] = x
	case "origin":
		r.origin(p)
	case "witness":
		token := p["record"]
		if known := r.record(token); known != nil {
			token = known.Token()
		}
		o.Witnesses = append(o.Witnesses, Witness{Volume: p["0"], Token: token})
	case "orders":
		o.Orders = Orders{Abandon: has("abandon"), New: has("new"), Join: has("join"), Differs: has("differs"), Alone: r.restore(p["alone"])}
	case "care", "database", "room", "stale", "papers":
		r.upkeep(noun, p, has)
	default:
		r.err = fmt.Errorf("unknown noun %q", noun)
	}
}

func (r *reader) disk(p map[string]string, has func(string) bool) {
	d := Disk{Unknown: p["unknown"], Superseded: p["superseded"], Unfit: p["unfit"], WAL: has("wal"), Member: r.number(p["wal"]), ClusterID: r.cid(p["cid"]), Founder: r.number(p["founder"]), HasLedger: len(p) > 0 && !has("unledgered")}
	d.Ledger = Ledger{Record: r.record(p["record"]), Role: Role(p["role"]), Join: r.number(p["join"]), Started: p["started"]}
	if has("promises") {
		for _, name := range strings.Split(p["promises"], ",") {
			d.Ledger.Promises = append(d.Ledger.Promises, r.charter(name))
		}
	}
	d.Fresh = has("fresh")
	d.RecordCID, d.Ledger.Set = r.cid(p["record"]), r.set(p["set"])
	d.Ledger.Prepared, d.Built = r.restore(p["prepared"]), "id-"+p["prepared"]
	if has("built") {
		d.Built = "id-" + p["built"]
	}
	if d.Built == "id-" {
		d.Built = ""
	}
	if has("secured") {
		d.Ledger.Secured = &Secured{secureStory, p["secured"] == "changed"}
	}
	d.Log, d.Term = r.log(p["log"]), r.number(p["term"])
	if has("copied") {
		d.Ledger.Prepared.Log = r.log(p["copied"])
	}
	for _, m := range r.members(p["founders"]) {
		if d.Founders == nil {
			d.Founders = map[string]uint64{}
		}
		d.Founders[m.Slot] = m.ID
	}
	r.o.Disk = d
	r.ending("disk", p, has)
}

func (r *reader) peer(p map[string]string, has func(string) bool) Peer {
	peer := Peer{Node: p["0"], Live: has("live")}
	if has("silent") {
		return peer
	}
	f := &Facts{Version: 1, Slot: p["slot"], Disk: p["disk"], Epoch: r.number(p["epoch"]), Phase: Phase(p["phase"]), Slots: r.o.Config.Slots, PeerURL: r.o.Config.PeerURL,
		Record: r.record(p["record"]), Join: r.number(p["join"]), Member: r.number(p["member"]), CID: r.cid(p["cid"]), Running: has("running"), Leader: has("leader"),
		Members: r.members(p["members"]), Admitted: r.admitted(p["admitted"]), Store: "S", Unable: p["unable"], Restore: r.id(p["restore"]), Prepared: r.id(p["prepared"]), Etcd: p["etcd"], Agreed: p["agreed"]}
	f.Log, f.Term, f.Confirmed, f.Taken = r.log(p["log"]), r.number(p["term"]), has("confirmed"), has("taken")
	f.Drained, f.Foreign, f.Lock = has("drained"), has("foreign"), p["lock"]
	if has("store") {
		f.Store = p["store"]
	}
	if has("slots") {
		f.Slots = strings.Split(p["slots"], ",")
	}
	if has("url") {
		f.PeerURL = p["url"]
	}
	if has("secured") {
		f.Secured = secureStory
	}
	if has("promise") {
		c := r.charter(p["promise"])
		f.Promise = &c
	}
	if has("removed") {
		f.Removed = []uint64{r.number(p["removed"])}
	}
	f.Holders = holdersOf(p["holders"])
	f.Set = r.set(p["set"])
	f.Left, f.Consent, f.Confirmed, f.Nonce = r.left(p["left"]), r.id(p["consent"]), has("confirmed"), p["nonce"]
	peer.Facts = f
	return peer
}

// set reads the slots that a record has agreed on, with their serial: X:a,b,c#2, or X:a,b,c#2<a,b with the slots that
// the members had before, by default a,b,c.
func (r *reader) set(s string) *SlotSet {
	record, rest, ok := strings.Cut(s, ":")
	if !ok {
		return nil
	}
	slots, serial, _ := strings.Cut(rest, "#")
	serial, from, ok := strings.Cut(serial, "<")
	if !ok {
		from = "a,b,c"
	}
	return &SlotSet{Record: r.record(record).ID, Serial: r.number(serial), Slots: strings.Split(slots, ","), From: strings.Split(from, ",")}
}

func (r *reader) number(s string) uint64 {
	if s == "" {
		return 0
	}
	n, err := strconv.ParseUint(s, 16, 64)
	if err != nil {
		r.err = err
	}
	return n
}

// stand reads what the newest backup holds: name@generation.revision.
func (r *reader) stand(p map[string]string) *BackupStand {
	name, at, _ := strings.Cut(p["newest"], "@")
	generation, revision, _ := strings.Cut(at, ".")
	switch {
	case p["unlisted"] != "":
		return &BackupStand{Unknown: p["unlisted"]}
	case name == "none":
		return &BackupStand{}
	case name == "":
		return nil
	}
	return &BackupStand{Name: name, Generation: r.number(generation), Revision: int64(r.number(revision))}
}

// log reads the end of a log: term.index.
func (r *reader) log(s string) *LogEnd {
	term, index, ok := strings.Cut(s, ".")
	if !ok {
		return nil
	}
	return &LogEnd{r.number(term), r.number(index)}
}

func (r *reader) charter(name string) Charter {
	c, ok := r.charters[name]
	if !ok {
		r.err = fmt.Errorf("unknown charter %q", name)
	}
	return c
}

// restore returns the proposal of that name.
func (r *reader) restore(name string) *Restore {
	if name == "" {
		return nil
	}
	x, ok := r.restores[name]
	if !ok {
		r.err = fmt.Errorf("unknown restore %q", name)
	}
	return &x
}

func (r *reader) id(name string) string {
	if x := r.restore(name); x != nil {
		return x.ID
	}
	return ""
}

// record makes the founding record of a charter. With + after the name, it makes that of the next generation; with a
// slash and the name of a restore, that of the generation which the restore begins, for the disks of the charter.
func (r *reader) record(name string) *Record {
	if name == "" {
		return nil
	}
	if rec := adopted(name); rec != nil {
		return rec
	}
	if charter, restore, ok := strings.Cut(name, "/"); ok {
		x := r.restore(restore)
		c := r.charter(charter)
		c.Generation = x.Generation
		cause := Restored
		if x.Survivor != "" {
			cause = Recovered
		}
		return &Record{Cluster: "main", Generation: x.Generation, ID: x.ID, Line: x.Line, Cause: cause, Restore: x, Charter: c}
	}
	first, later := strings.CutSuffix(name, "+")
	rec := FoundingRecord(r.charter(first))
	if later {
		rec.Generation, rec.Line, rec.ID, rec.Cause = 2, []string{rec.ID}, "second-"+rec.ID[:4], Restored
	}
	return &rec
}

func (r *reader) cid(name string) uint64 {
	if rec := r.record(name); rec != nil {
		return rec.cid()
	}
	return 0
}

func (r *reader) members(s string) []MemberInfo {
	var list []MemberInfo
	for _, w := range strings.FieldsFunc(s, func(c rune) bool { return c == ',' }) {
		slot, id, _ := strings.Cut(w, ":")
		id, acked, _ := strings.Cut(id, "@")
		m := MemberInfo{Slot: slot, ID: r.number(strings.Trim(id, "+*!^")), Learner: strings.Contains(id, "*"), Connected: strings.Contains(id, "+"), Stuck: strings.Contains(id, "!"), Acked: r.number(acked), Matched: r.number(acked)}
		if strings.Contains(id, "^") { // after the others: its URL has https
			m.PeerURL = PeerURL(secureStory, slot)
		}
		list = append(list, m)
	}
	return list
}

func (r *reader) admitted(s string) []Admission {
	p := strings.Split(s, "/")
	if len(p) != 3 {
		return nil
	}
	return []Admission{{Slot: p[0], Disk: p[1], ID: r.number(p[2])}}
}

// holdersOf reads "b/n2,c/n3".
func holdersOf(text string) map[string]string {
	var holders map[string]string
	for _, pair := range strings.Split(text, ",") {
		if slot, node, ok := strings.Cut(pair, "/"); ok {
			if holders == nil {
				holders = map[string]string{}
			}
			holders[slot] = node
		}
	}
	return holders
}
