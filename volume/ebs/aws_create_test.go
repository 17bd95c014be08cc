package ebs

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

func TestCreate(t *testing.T) {
	var looks, creates atomic.Int32
	f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.Form.Get("Action") {
		case opCreate:
			if creates.Add(1) == 1 {
				panic(http.ErrAbortHandler) // executed perhaps: the token makes it safe to ask again
			}
			accept(w, r, "<volumeId>vol-1</volumeId><status>creating</status>")
		default:
			switch looks.Add(1) {
			case 1:
				refuse(w, 400, "InvalidVolume.NotFound", "not visible yet")
			case 2:
				accept(w, r, "<volumeSet><item><volumeId>vol-1</volumeId><status>creating</status></item></volumeSet>")
			default:
				accept(w, r, "<volumeSet><item><volumeId>vol-1</volumeId><status>available</status></item></volumeSet>")
			}
		}
	})
	id, err := f.client(nil).Create(t.Context(), NewVolume{
		Zone: "eu-test-1a", SizeGiB: 20, Throughput: 250, IOPS: 4000, Encrypted: true, KMSKey: "alias/k", Token: "once",
		Tags: map[string]string{"b": "2", "a": "1"},
	})
	if id != "vol-1" || err != nil {
		t.Fatalf("got %q, %v, want vol-1", id, err)
	}
	sent := f.requests(opCreate)
	if len(sent) != 2 {
		t.Fatalf("got %d requests, want 2", len(sent))
	}
	for _, form := range sent {
		for key, want := range map[string]string{
			"AvailabilityZone": "eu-test-1a", "Size": "20", "VolumeType": "gp3", "Throughput": "250", "Iops": "4000", "Encrypted": "true",
			"KmsKeyId": "alias/k", "ClientToken": "once", "MultiAttachEnabled": "",
			"TagSpecification.1.ResourceType": "volume", "TagSpecification.1.Tag.1.Key": "a", "TagSpecification.1.Tag.2.Value": "2",
		} {
			if form[key] != want {
				t.Errorf("%s: got %q, want %q", key, form[key], want)
			}
		}
	}
}

func TestCreateThatFailsLater(t *testing.T) {
	for _, state := range []string{"error", "deleting", "deleted"} {
		f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Form.Get("Action") == opCreate {
				accept(w, r, "<volumeId>vol-1</volumeId>")
				return
			}
			accept(w, r, fmt.Sprintf("<volumeSet><item><volumeId>vol-1</volumeId><status>%s</status></item></volumeSet>", state))
		})
		id, err := f.client(nil).Create(t.Context(), NewVolume{Zone: "eu-test-1a", SizeGiB: 1, Encrypted: true})
		if id != "vol-1" || err == nil || !strings.Contains(err.Error(), "EC2 gave it up, its state is "+state) || !strings.Contains(err.Error(), "KMS") {
			t.Errorf("%s: got %q, %v, want the ID and an error that speaks of the state and of KMS", state, id, err)
		}
	}
}

func TestNewVolumeValidate(t *testing.T) {
	good := NewVolume{Zone: "z", SizeGiB: 20}
	with := func(change func(*NewVolume)) NewVolume {
		n := good
		change(&n)
		return n
	}
	for _, test := range []struct {
		n    NewVolume
		want string // "": good
	}{
		{good, ""},
		{with(func(n *NewVolume) { n.Type, n.IOPS = "io2", 1000 }), ""},
		{with(func(n *NewVolume) { n.Type, n.SizeGiB = "st1", 125 }), ""},
		{with(func(n *NewVolume) { n.Zone = "" }), "zone"},
		{with(func(n *NewVolume) { n.SizeGiB = 0 }), "size: must be 1 GiB or more for gp3"},
		{with(func(n *NewVolume) { n.SizeGiB = 1 << 40 }), "size"},
		{with(func(n *NewVolume) { n.Type = "gp9" }), "type"},
		{with(func(n *NewVolume) { n.Type = "sc1" }), "size: must be 125 GiB"},
		{with(func(n *NewVolume) { n.Type = "io1" }), "iops: must be given for io1"},
		{with(func(n *NewVolume) { n.Type, n.IOPS = "gp2", 3000 }), "iops: cannot be given for gp2"},
		{with(func(n *NewVolume) { n.Type, n.IOPS, n.Throughput = "io2", 3000, 125 }), "throughput: cannot"},
		{with(func(n *NewVolume) { n.IOPS = -1 }), "iops: out of range"},
		{with(func(n *NewVolume) { n.KMSKey = "k" }), "KMS"},
		{with(func(n *NewVolume) { n.Token = strings.Repeat("x", 65) }), "token"},
	} {
		err := test.n.Validate()
		if (test.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: got %v, want %q", test.n, err, test.want)
		}
	}
	f := newFake(t, func(w http.ResponseWriter, r *http.Request) { accept(w, r, "") })
	if _, err := f.client(nil).Create(t.Context(), NewVolume{}); err == nil || len(f.requests(opCreate)) != 0 {
		t.Errorf("got %v, want nonsense refused and not sent", err)
	}
}
