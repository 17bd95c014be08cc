package ebs

import (
	"fmt"
	"net/http"
	"net/netip"
	"reflect"
	"strings"
	"testing"
)

func volumeItem(id string, tags ...string) string {
	var set strings.Builder
	for _, t := range tags {
		k, v, _ := strings.Cut(t, "=")
		fmt.Fprintf(&set, "<item><key>%s</key><value>%s</value></item>", k, v)
	}
	return fmt.Sprintf("<item><volumeId>%s</volumeId><tagSet>%s</tagSet></item>", id, set.String())
}

func ids(volumes []Volume) []string {
	var all []string
	for _, v := range volumes {
		all = append(all, v.ID)
	}
	return all
}

func TestVolumesReadsAllPages(t *testing.T) {
	pages := map[string]struct{ items, next string }{
		"":   {volumeItem("vol-1", "c=x"), "p2"},
		"p2": {"", "p3"}, // empty after filtering, but not the last page
		"p3": {volumeItem("vol-2", "c=x") + volumeItem("vol-1", "c=x", "again="), ""},
	}
	f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		p := pages[r.Form.Get("NextToken")]
		accept(w, r, fmt.Sprintf("<volumeSet>%s</volumeSet><nextToken>%s</nextToken>", p.items, p.next))
	})
	got, err := f.client(nil).Volumes(t.Context(), Query{Tags: map[string]string{"c": "x"}})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"vol-1", "vol-2"}; !reflect.DeepEqual(ids(got), want) {
		t.Errorf("got %v, want %v", ids(got), want)
	}
	if _, again := got[0].Tags["again"]; !again {
		t.Error("of a volume on two pages the earlier one was kept")
	}
	for _, form := range f.requests(opVolumes) {
		if form["MaxResults"] != fmt.Sprint(pageSize) || form["Filter.1.Name"] != "tag:c" {
			t.Errorf("got %v, want MaxResults and the filter on every page", form)
		}
	}
}

func TestVolumesEndlessPages(t *testing.T) {
	f := newFake(t, func(w http.ResponseWriter, r *http.Request) { accept(w, r, "<nextToken>same</nextToken>") })
	got, err := f.client(nil).Volumes(t.Context(), Query{Tags: map[string]string{"c": "x"}})
	if err == nil || got != nil {
		t.Errorf("got %v, %v, want an error and no list that looks complete", got, err)
	}
}

func TestVolumesFilters(t *testing.T) {
	f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		accept(w, r, "<volumeSet>"+volumeItem("vol-1", "a=1", "b=", "c=*?", "d=")+volumeItem("vol-2", "a=1", "b=", "c=*?")+
			volumeItem("vol-3", "a=2", "b=", "c=*?", "d=")+"</volumeSet>")
	})
	got, err := f.client(nil).Volumes(t.Context(), Query{Tags: map[string]string{"a": "1", "b": "", "c": "*?", "d": ""}})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"vol-1"}; !reflect.DeepEqual(ids(got), want) {
		t.Errorf("got %v, want %v: what an endpoint lets through must be sorted out", ids(got), want)
	}
	form := f.requests(opVolumes)[0]
	for key, want := range map[string]string{
		"Filter.1.Name": "tag:a", "Filter.1.Value.1": "1", "Filter.2.Name": "tag-key", "Filter.2.Value.1": "b",
		"Filter.3.Name": "tag:c", "Filter.3.Value.1": `\*\?`, "Filter.4.Name": "",
	} {
		if form[key] != want {
			t.Errorf("%s: got %q, want %q", key, form[key], want)
		}
	}
}

func TestVolumesByID(t *testing.T) {
	f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Form.Get("VolumeId.1") == "vol-9" {
			refuse(w, 400, "InvalidVolume.NotFound", "The volume 'vol-9' does not exist.")
			return
		}
		accept(w, r, `<volumeSet><item><volumeId>vol-1</volumeId><size>7</size><availabilityZone>eu-test-1a</availabilityZone>
			<status>in-use</status><volumeType>gp3</volumeType><encrypted>true</encrypted><multiAttachEnabled>true</multiAttachEnabled>
			<attachmentSet><item><instanceId>i-1</instanceId><device>/dev/sdf</device><status>detaching</status><deleteOnTermination>true</deleteOnTermination></item>
			<item><status>attached</status></item></attachmentSet>
			<tagSet><item><key>k</key><value>v=1</value></item></tagSet></item></volumeSet>`)
	})
	e := f.client(nil)
	got, err := e.Volumes(t.Context(), Query{IDs: []string{"vol-1"}})
	want := []Volume{{
		ID: "vol-1", Zone: "eu-test-1a", State: VolumeInUse, Type: "gp3", Size: 7, Encrypted: true, MultiAttach: true,
		Tags: map[string]string{"k": "v=1"},
		// Something that AWS manages holds the second volume.
		Attachments: []Attachment{{Instance: "i-1", Device: "/dev/sdf", State: Detaching, DeleteOnTermination: true}, {State: Attached}},
	}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v\nwant %+v", got, err, want)
	}
	if form := f.requests(opVolumes)[0]; form["MaxResults"] != "" || form["Filter.1.Name"] != "" {
		t.Errorf("got %v, want neither MaxResults nor filters with IDs", form)
	}
	if _, err := e.Volumes(t.Context(), Query{IDs: []string{"vol-9"}}); MeaningOf(err) != NotFound {
		t.Errorf("got %v, want %q", err, NotFound)
	}
	if _, err := e.Volumes(t.Context(), Query{}); MeaningOf(err) != Invalid || len(f.requests(opVolumes)) != 2 {
		t.Errorf("got %v, want an empty query refused and not sent", err)
	}
}

func instanceItem(id, state, rest string) string {
	return fmt.Sprintf("<item><instancesSet><item><instanceId>%s</instanceId><instanceState><name>%s</name></instanceState>%s</item></instancesSet></item>", id, state, rest)
}

func TestInstances(t *testing.T) {
	known := map[string]string{
		"i-1": instanceItem("i-1", "running", "<privateIpAddress>10.0.0.1</privateIpAddress><ipv6Address>fd00::1</ipv6Address>"),
		"i-3": instanceItem("i-3", "stopped", "<hibernationOptions><configured>true</configured></hibernationOptions><ipv6Address>fd00::3</ipv6Address>"),
	}
	f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		items := ""
		for n := 1; r.Form.Has(fmt.Sprintf("InstanceId.%d", n)); n++ {
			item, ok := known[r.Form.Get(fmt.Sprintf("InstanceId.%d", n))]
			if !ok {
				refuse(w, 400, "InvalidInstanceID.NotFound", "The instance ID does not exist")
				return
			}
			items += item
		}
		accept(w, r, "<reservationSet>"+items+"</reservationSet>")
	})
	e := f.client(nil)
	got, err := e.Instances(t.Context(), []string{"i-1", "i-2", "i-3"})
	want := []Instance{{ID: "i-1", State: InstanceRunning, Address: netip.MustParseAddr("10.0.0.1")},
		{ID: "i-3", State: InstanceStopped, Hibernate: true, Address: netip.MustParseAddr("fd00::3")}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	before := len(f.requests(opInstances))
	if got, err := e.Instances(t.Context(), nil); got != nil || err != nil || len(f.requests(opInstances)) != before {
		t.Errorf("got %v, %v, want nothing asked: no IDs means all instances to EC2", got, err)
	}
}

// An instance that could not be asked about is not an unknown one.
func TestInstancesErrorWhileAskingOneByOne(t *testing.T) {
	f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Form.Has("InstanceId.2"), r.Form.Get("InstanceId.1") == "i-1":
			refuse(w, 400, "InvalidInstanceID.NotFound", "The instance ID does not exist")
		default:
			refuse(w, 403, "UnauthorizedOperation", "no")
		}
	})
	got, err := f.client(nil).Instances(t.Context(), []string{"i-1", "i-2"})
	if MeaningOf(err) != Denied || got != nil {
		t.Errorf("got %v, %v, want %q", got, err, Denied)
	}
}

func TestChangesAsSent(t *testing.T) {
	f := newFake(t, func(w http.ResponseWriter, r *http.Request) { accept(w, r, "<return>true</return>") })
	e := f.client(nil)
	if err := e.Attach(t.Context(), "vol-1", "i-1", "/dev/sdf"); err != nil {
		t.Error(err)
	}
	if err := e.Detach(t.Context(), "vol-1", "i-1"); err != nil {
		t.Error(err)
	}
	if err := e.Tag(t.Context(), "vol-1", map[string]string{"b": "2", "a": ""}); err != nil {
		t.Error(err)
	}
	if err := e.Untag(t.Context(), "vol-1", "a", ""); err != nil {
		t.Error(err)
	}
	for op, want := range map[string]map[string]string{
		opAttach: {"VolumeId": "vol-1", "InstanceId": "i-1", "Device": "/dev/sdf"},
		opDetach: {"VolumeId": "vol-1", "InstanceId": "i-1"}, // never Force
		opTag:    {"ResourceId.1": "vol-1", "Tag.1.Key": "a", "Tag.1.Value": "", "Tag.2.Key": "b", "Tag.2.Value": "2"},
		opUntag:  {"ResourceId.1": "vol-1", "Tag.1.Key": "a", "Tag.1.Value": ""}, // with the value: otherwise any value is deleted
	} {
		want["Action"], want["Version"] = op, "2016-11-15"
		if got := f.requests(op); len(got) != 1 || !reflect.DeepEqual(got[0], want) {
			t.Errorf("%s: got %v, want once %v", op, got, want)
		}
	}
	if err := e.Detach(t.Context(), "vol-1", ""); MeaningOf(err) != Invalid || len(f.requests(opDetach)) != 1 {
		t.Errorf("got %v, want a DetachVolume without an instance refused and not sent", err)
	}
}
