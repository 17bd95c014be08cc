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
				panic(http.ErrAbortHandler) // perhaps executed: the token makes it safe to ask again
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
		Zone: "eu-test-1a", SizeGiB: 20, Type: "gp3", Throughput: 250, IOPS: 4000, Encrypted: true, KMSKey: "alias/k", Token: "once",
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
