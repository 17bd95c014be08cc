package plan

import (
	"strings"
	"testing"
)

// TestSurvey: what `holdfast recover` refuses, and the reason it gives.
func TestSurvey(t *testing.T) {
	record := FoundingRecord(Charter{Cluster: "main", Generation: 1, Seats: []Seat{{Slot: "a", Disk: "d1"}, {Slot: "b", Disk: "d2"}, {Slot: "c", Disk: "d3"}}})
	list := []MemberInfo{{ID: 1, Slot: "a"}, {ID: 2, Slot: "b"}, {ID: 3, Slot: "c"}}
	at := func(term, index uint64) *LogEnd { return &LogEnd{term, index} }
	member := func(node, slot string, id uint64, log *LogEnd) Peer {
		return Peer{Node: node, Live: true, Facts: &Facts{Slot: slot, Disk: "d" + string(rune('0'+id)), Phase: PhaseData, Record: &record, Member: id, Running: true, Members: list, Log: log, Store: "S"}}
	}
	stranger := member("n2", "b", 2, at(2, 9))
	stranger.Facts.Store = "T"
	late := member("n2", "b", 2, at(2, 9))
	late.Facts.Nonce = "it was not read yet"
	strange := member("n1", "a", 1, at(2, 9))
	strange.Facts.Store = "T"
	leader := member("n2", "b", 2, nil)
	leader.Facts.Leader = true
	drained := member("n2", "b", 2, nil)
	drained.Facts.Running = false
	founder := member("n2", "b", 0, nil)
	founder.Facts.Running, founder.Facts.Phase = false, PhaseFounder
	unusable := member("n2", "b", 0, nil)
	unusable.Facts.Running, unusable.Facts.Phase, unusable.Facts.Record = false, PhaseWaiting, nil
	blank := member("n2", "b", 0, nil)
	blank.Facts.Running, blank.Facts.Phase, blank.Facts.Record = false, PhaseBlank, nil
	idle := member("n2", "b", 2, at(2, 9))
	idle.Facts.Running = false
	for name, c := range map[string]struct {
		peers    []Peer
		lost     []string
		survivor string
		chosen   string
		want     string
	}{
		"one is left":      {[]Peer{member("n1", "a", 1, at(2, 9))}, []string{"b", "c"}, "", "a", ""},
		"two are left":     {[]Peer{member("n1", "a", 1, at(2, 9)), member("n2", "b", 2, at(3, 1))}, []string{"c"}, "", "b", ""},
		"of equals either": {[]Peer{member("n1", "a", 1, at(2, 9)), member("n2", "b", 2, at(2, 9))}, []string{"c"}, "b", "b", ""},
		"less advanced":    {[]Peer{member("n1", "a", 1, at(2, 9)), member("n2", "b", 2, at(3, 1))}, []string{"c"}, "a", "", "slot b on n2 has a more advanced log"},
		"not all declared": {[]Peer{member("n1", "a", 1, at(2, 9))}, []string{"b"}, "", "", "--lost b,c"},
		"here, not lost":   {[]Peer{member("n1", "a", 1, at(2, 9)), member("n2", "b", 2, at(2, 9))}, []string{"b", "c"}, "", "", "stop that node first"},
		"drained":          {[]Peer{member("n1", "a", 1, at(2, 9)), drained}, []string{"b", "c"}, "", "", "`holdfast undrain`"},
		"a founder that cannot start": {[]Peer{member("n1", "a", 1, at(2, 9)), founder}, []string{"b", "c"}, "", "",
			"slot b on n2 is here and does not run"},
		"a disk that cannot be used": {[]Peer{member("n1", "a", 1, at(2, 9)), unusable}, []string{"b", "c"}, "", "",
			"slot b on n2 is here and does not run"},
		"a blank disk": {[]Peer{member("n1", "a", 1, at(2, 9)), blank}, []string{"b", "c"}, "", "a", ""},
		"drained, and its log is known": {[]Peer{member("n1", "a", 1, at(2, 9)), idle}, []string{"c"}, "", "",
			"slot b on n2 does not run: `holdfast status` says what keeps etcd there (`holdfast undrain` if it is drained)"},
		"no such slot":     {[]Peer{member("n1", "a", 1, at(2, 9))}, []string{"b", "c", "x"}, "", "", "no slot x"},
		"no such survivor": {[]Peer{member("n1", "a", 1, at(2, 9))}, []string{"b", "c"}, "x", "", "no slot x"},
		"not here":         {[]Peer{member("n1", "a", 1, at(2, 9))}, []string{"c"}, "b", "", "does not run here"},
		"a leader": {[]Peer{member("n1", "a", 1, at(2, 9)), leader}, []string{"c"}, "", "",
			"node n2 leads the cluster, or did until a moment ago"},
		"a follower":    {[]Peer{member("n1", "a", 1, nil)}, []string{"b", "c"}, "", "", "follows a leader"},
		"a silent node": {[]Peer{member("n1", "a", 1, at(2, 9)), {Node: "n2", Live: true}}, []string{"b", "c"}, "", "", "has not said yet"},
		"two stores": {[]Peer{member("n1", "a", 1, at(2, 9)), stranger}, []string{"c"}, "", "",
			"node n2 uses another backup store: set snapshot.store"},
		"not known yet": {[]Peer{member("n1", "a", 1, at(2, 9)), late}, []string{"c"}, "", "",
			"it is not known yet whether node n2 uses the same backup store"},
		"one late, one strange": {[]Peer{strange, late}, []string{"c"}, "", "", "node n1 uses another backup store"},
		"nobody":                {nil, []string{"a", "b", "c"}, "", "", "no disk here knows"},
	} {
		o := Observation{Node: "n9", Config: Config{Slots: []string{"a", "b", "c"}}, Peers: c.peers,
			Store: Store{ID: "S", Record: &record, Late: []string{"n1", "n2"}}}
		chosen, refusal := o.Survey().Choose(c.lost, c.survivor)
		if _, incurable := o.Survey().Declare(c.lost, c.survivor); (incurable == "") != (c.want == "" || name == "not all declared") {
			t.Errorf("survey: %s: whatever is declared it is refused: %q", name, incurable)
		}
		if soon := o.Survey().Soon; soon != (name == "not known yet") {
			t.Errorf("survey: %s: it passes soon: %v", name, soon)
		}
		if c.want == "" && (refusal != "" || chosen.Slot != c.chosen) || c.want != "" && !strings.Contains(refusal, c.want) {
			t.Errorf("survey: %s: got slot %q, %q, want slot %q, %q", name, chosen.Slot, refusal, c.chosen, c.want)
		}
	}
}

// declaredLost is what n2 sees, whose disk of generation X was declared lost: its log ends there, and the rest is told.
func declaredLost(t *testing.T, log, told string) Observation {
	t.Helper()
	r := reader{charters: map[string]Charter{}, restores: map[string]Restore{}}
	o, err := r.read(`charter X a=d1@1 b=d2@1 c=d3@1
charter Y a=d1@2#1 b=@0#2 c=@0#3
restore R line=X survivor=a disk=d1 log=2.64 lost=b,c
node n2
claim b d2 epoch=2
disk record=X role=founder started=d2 wal=2 cid=X founder=2 log=` + log + ` left=R/a:1,b:2,c:3
` + told + "\n")
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// A disk that was declared lost and is back is no survivor of the generation that followed: `holdfast recover` once
// showed it as one, and the command that it advised never ended.
func TestSurveyOfAnEndedGeneration(t *testing.T) {
	for name, tc := range map[string]struct{ store, want string }{
		"concluded":    {"store id=S record=Y/R concluded=Y/R", "has ended, and the cluster continues as main@2-id-R"},
		"a record":     {"store id=S record=Y/R", "the backup store has a record of main@2-id-R, and no proposal and outcome"},
		"its own ends": {"store id=S record=X", ""},
	} {
		s := declaredLost(t, "3.99", "peer n1 slot=a disk=d1 phase=data record=Y/R running member=11 members=a:11\n"+
			tc.store).Survey()
		_, refusal := s.Declare(nil, "")
		if s.Record == nil || s.Record.Generation != 1 || (refusal == "") != (tc.want == "") ||
			!strings.Contains(refusal, tc.want) {
			t.Errorf("survey: %s: got generation %v, %q, want 1, %q", name, s.Record, refusal, tc.want)
		}
	}
}

// The cluster does not continue from a disk that it had left behind while another one is here that holds more.
func TestSurveyBehind(t *testing.T) {
	for peer, want := range map[string]string{
		"peer n3 live slot=c disk=d3 phase=data record=X member=33 log=3.9 left=R/a:1,b:2,c:3": "slot c on n3 has a more " +
			"advanced log (term 3, index 9) than slot b (term 3, index 8)",
		"peer n3 live slot=c disk=d3 phase=data record=X member=33 log=3.8 left=R/a:1,b:2,c:3": "",
		"peer n3 live slot=c disk=d3 phase=data record=X member=33":                            "", // it follows a leader
		"peer n3 live slot=c disk=d3 phase=data record=Y/R member=33 log=4.9":                  "", // the present generation's
		"peer n3 slot=c disk=d3 phase=data record=X member=33 log=3.9":                         "",
	} {
		o := declaredLost(t, "3.8", peer)
		if got := o.Behind(); got != want {
			t.Errorf("survey: %s: got %q, want %q", peer, got, want)
		}
	}
}
