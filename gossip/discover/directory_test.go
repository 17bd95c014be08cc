package discover

import (
	"reflect"
	"slices"
	"testing"
	"time"
)

func live(slot, node, ip string) Entry {
	e := at(slot, ip)
	e.Node, e.Live = node, true
	return e
}

// Only a leader's list takes a slot away; silence keeps the last known address.
func TestDirectory(t *testing.T) {
	var d directory
	addresses := func() (all []string) {
		for _, e := range d.Entries() {
			all = append(all, e.Slot+"="+e.Address.String())
		}
		return all
	}
	now := time.Unix(100, 0)
	step := func(name string, v View, changed bool, want ...string) {
		t.Helper()
		now = now.Add(time.Second)
		if got := d.Update(v, now); got != changed {
			t.Errorf("%s: changed is %t, want %t", name, got, changed)
		}
		if got := addresses(); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
	d.Recall([]Entry{at("c", "10.0.0.3"), {Slot: "broken"}})
	all := []string{"a", "b", "c"}
	a, b := live("a", "n1", "10.0.0.1"), live("b", "n2", "10.0.0.2")
	step("nothing is heard", View{}, false, "c=10.0.0.3")
	step("two are heard", View{Known: true, Voters: all, Running: []Entry{a, b}}, true, "a=10.0.0.1", "b=10.0.0.2", "c=10.0.0.3")
	if got, want := d.missing, []string{"c"}; !slices.Equal(got, want) {
		t.Errorf("missing: got %v, want %v", got, want)
	}
	since := d.Entries()[0].Since
	step("again", View{Known: true, Voters: all, Running: []Entry{a, b}}, false, "a=10.0.0.1", "b=10.0.0.2", "c=10.0.0.3")
	a.Live = false
	step("one is lost", View{Known: true, Voters: all, Running: []Entry{a, b}}, true, "a=10.0.0.1", "b=10.0.0.2", "c=10.0.0.3")
	step("all are lost", View{Voters: all}, true, "a=10.0.0.1", "b=10.0.0.2", "c=10.0.0.3")
	if e := d.Entries()[1]; e.Live || !d.Entries()[0].Since.Equal(since) {
		t.Errorf("lost ones: got %+v", d.Entries())
	}
	step("a list of nobody", View{Known: true}, false, "a=10.0.0.1", "b=10.0.0.2", "c=10.0.0.3")
	step("a moves, c is removed", View{Known: true, Voters: all[:2], Running: []Entry{live("a", "n4", "10.0.0.4")}}, true, "a=10.0.0.4", "b=10.0.0.2")
	if d.Entries()[0].Since.Equal(since) {
		t.Error("a has moved, and is there since before")
	}
}

func TestEndpointsFile(t *testing.T) {
	a := live("a", "n1", "10.0.0.1")
	a.Clients, a.Since = []string{"https://10.0.0.1:2379", "https://a.example:2379"}, time.Unix(100, 0).UTC()
	lines := endpointsFile("", Lines, "k8s", []Entry{a})
	if got, _ := lines.edit([]byte("old")); string(got) != "https://10.0.0.1:2379\nhttps://a.example:2379\n" {
		t.Errorf("lines: got %q", got)
	}
	if got, _ := endpointsFile("", Lines, "k8s", []Entry{at("a", "10.0.0.1")}).edit([]byte("old")); string(got) != "old" {
		t.Errorf("without client URLs: got %q, want what was there", got)
	}
	file := endpointsFile("", JSON, "k8s", []Entry{a})
	data, _ := file.edit(nil)
	if got := recallEndpoints(data, "k8s"); !reflect.DeepEqual(got, []Entry{a}) {
		t.Errorf("recalled: got %+v, want %+v", got, a)
	}
	if got := recallEndpoints(data, "other"); got != nil {
		t.Errorf("of another cluster: got %+v", got)
	}
	if again, _ := file.edit(data); &again[0] != &data[0] {
		t.Error("nothing has changed, and it is written again")
	}
}

func TestService(t *testing.T) {
	for text, want := range map[string]uint16{"https://x:2379": 2379, "http://[::1]:80": 80, "http://{slot}.c.d:2380": 2380, "http://x": 0, "x:1": 0, "": 0, "http://x:0": 0, "http://x:99999": 0} {
		if _, got := service(text); got != want {
			t.Errorf("%q: got %d, want %d", text, got, want)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
