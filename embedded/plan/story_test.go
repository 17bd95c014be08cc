package plan

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the answers into the story files")

// TestStories plays testdata/*.txt. A story is a list of paragraphs; each is an observation, a line of
// dashes, and the answer. A line of an observation is a noun and its properties:
//
//	charter X a=d1@1 b=d2@1 c=d3@2     a charter and its record, for use by name below (for all later paragraphs)
//	node n1 slots=a,b,c never yields   Config
//	claim a d1 epoch=2 mismatch="..."  or: claim none="..." parked
//	disk promises=X,Y record=X role=founder join=5 started=d1 wal=1 cid=X founder=1
//	member running ready leader members=a:1+,b:2*    + is connected, * is a learner
//	peer n2 live slot=b disk=d2 phase=blank promise=X record=X member=2 ...
//	store id=S record=X
//	witness vol-1 record=X
//	orders abandon new
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
			r := reader{charters: map[string]Charter{}}
			for _, paragraph := range strings.Split(strings.TrimSpace(string(src)), "\n\n") {
				told, want, ok := strings.Cut(paragraph+"\n", "----\n")
				if !ok && !*update {
					t.Fatalf("no answer in %q", paragraph)
				}
				o, err := r.read(told)
				if err != nil {
					t.Fatalf("%v in %q", err, paragraph)
				}
				got := answer(Next(o)) + "\n"
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

// answer writes an action on two lines: the kind with the fields that are set, and why.
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
	add("mirror", a.Mirror, a.Mirror)
	add("join", a.Join, a.Join)
	add("node", a.Node, a.Node != "")
	add("slot", a.Slot, a.Slot != "")
	add("disk", a.Disk, a.Disk != "")
	add("member", strconv.FormatUint(a.Member, 16), a.Member != 0)
	add("peers", strings.Join(slices.Sorted(maps.Keys(a.Peers)), ","), a.Peers != nil)
	add("avoid", strings.Join(slices.Sorted(maps.Keys(a.Avoid)), ","), a.Avoid != nil)
	return b.String() + "\n" + a.Why
}

// reader keeps the charters that a story has named.
type reader struct {
	charters map[string]Charter
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
				c.Seats = append(c.Seats, Seat{Slot: k, Disk: d, Epoch: r.number(e)})
			}
		}
		r.charters[p["0"]] = c
	case "node":
		o.Node = p["0"]
		if has("slots") {
			o.Config.Slots = strings.Split(p["slots"], ",")
		}
		o.Config.Never, o.Config.Yields, o.Config.Seeded = has("never"), has("yields"), has("seeded")
		o.Twin, o.Early = p["twin"], has("early")
	case "claim":
		o.Parked = has("parked")
		o.Claim = Claim{Held: !has("none"), None: p["none"], Slot: p["0"], Disk: p["1"], Epoch: r.number(p["epoch"]), Mismatch: p["mismatch"]}
	case "disk":
		r.disk(p, has)
	case "member":
		o.Member = Member{Running: has("running"), Ready: has("ready"), Leader: has("leader"), HasLead: has("haslead"), Learner: has("learner"), Removed: has("removed"),
			ID: r.number(p["id"]), Members: r.members(p["members"]), Admitted: r.admitted(p["admitted"])}
	case "peer":
		o.Peers = append(o.Peers, r.peer(p, has))
	case "store":
		o.Store = Store{ID: p["id"], Unknown: p["unknown"], Record: r.record(p["record"]), CID: r.cid(p["record"])}
	case "witness":
		token := p["record"]
		if known := r.record(token); known != nil {
			token = known.Token()
		}
		o.Witnesses = append(o.Witnesses, Witness{Volume: p["0"], Token: token})
	case "orders":
		o.Orders = Orders{Abandon: has("abandon"), New: has("new")}
	default:
		r.err = fmt.Errorf("unknown noun %q", noun)
	}
}

func (r *reader) disk(p map[string]string, has func(string) bool) {
	d := Disk{Unknown: p["unknown"], WAL: has("wal"), Member: r.number(p["wal"]), ClusterID: r.cid(p["cid"]), Founder: r.number(p["founder"]), HasLedger: len(p) > 0 && !has("unledgered")}
	d.Ledger = Ledger{Record: r.record(p["record"]), Role: Role(p["role"]), Join: r.number(p["join"]), Started: p["started"]}
	if has("promises") {
		for _, name := range strings.Split(p["promises"], ",") {
			d.Ledger.Promises = append(d.Ledger.Promises, r.charter(name))
		}
	}
	d.RecordCID = r.cid(p["record"])
	r.o.Disk = d
}

func (r *reader) peer(p map[string]string, has func(string) bool) Peer {
	peer := Peer{Node: p["0"], Live: has("live")}
	if has("silent") {
		return peer
	}
	f := &Facts{Version: 1, Slot: p["slot"], Disk: p["disk"], Epoch: r.number(p["epoch"]), Phase: Phase(p["phase"]), Slots: r.o.Config.Slots, PeerURL: r.o.Config.PeerURL,
		Record: r.record(p["record"]), Join: r.number(p["join"]), Member: r.number(p["member"]), CID: r.cid(p["cid"]), Running: has("running"), Leader: has("leader"),
		Members: r.members(p["members"]), Admitted: r.admitted(p["admitted"]), Store: "S"}
	if has("store") {
		f.Store = p["store"]
	}
	if has("slots") {
		f.Slots = strings.Split(p["slots"], ",")
	}
	if has("url") {
		f.PeerURL = p["url"]
	}
	if has("promise") {
		c := r.charter(p["promise"])
		f.Promise = &c
	}
	if has("removed") {
		f.Removed = []uint64{r.number(p["removed"])}
	}
	for _, pair := range strings.Split(p["holders"], ",") {
		if slot, node, ok := strings.Cut(pair, "/"); ok {
			if f.Holders == nil {
				f.Holders = map[string]string{}
			}
			f.Holders[slot] = node
		}
	}
	peer.Facts = f
	return peer
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

func (r *reader) charter(name string) Charter {
	c, ok := r.charters[name]
	if !ok {
		r.err = fmt.Errorf("unknown charter %q", name)
	}
	return c
}

// record makes the founding record of a charter, or with + behind the name that of the generation after.
func (r *reader) record(name string) *Record {
	if name == "" {
		return nil
	}
	first, later := strings.CutSuffix(name, "+")
	rec := FoundingRecord(r.charter(first))
	if later {
		rec.Generation, rec.Parent, rec.ID, rec.Cause = 2, rec.ID, "second-"+rec.ID[:4], "restore"
	}
	return &rec
}

func (r *reader) cid(name string) uint64 {
	if rec := r.record(name); rec != nil {
		return hash(rec.Token())
	}
	return 0
}

func (r *reader) members(s string) []MemberInfo {
	var list []MemberInfo
	for _, w := range strings.FieldsFunc(s, func(c rune) bool { return c == ',' }) {
		slot, id, _ := strings.Cut(w, ":")
		list = append(list, MemberInfo{Slot: slot, ID: r.number(strings.Trim(id, "+*")), Learner: strings.Contains(id, "*"), Connected: strings.Contains(id, "+")})
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

// fields splits a line at spaces that are not within double quotes, and drops the quotes.
func fields(line string) []string {
	quoted := false
	words := strings.FieldsFunc(line, func(c rune) bool {
		if c == '"' {
			quoted = !quoted
		}
		return c == ' ' && !quoted
	})
	for i := range words {
		words[i] = strings.ReplaceAll(words[i], `"`, "")
	}
	return words
}
