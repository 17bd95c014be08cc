package volume

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestTagRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := claimTag{
			Epoch: rapid.Uint64Range(1, MaxEpoch).Draw(t, "epoch"),
			Owner: rapid.StringN(1, 40, -1).Draw(t, "owner"),
			Nonce: rapid.StringN(1, 40, -1).Draw(t, "nonce"),
			Phase: rapid.SampledFrom([]Phase{PhaseClaiming, PhaseHeld, PhaseReleased}).Draw(t, "phase"),
			Since: rapid.Int64().Draw(t, "since"),
			Disk:  rapid.String().Draw(t, "disk"),
		}
		if got, err := parseTag([]byte(want.String())); err != nil || got != want {
			t.Fatalf("got %+v, %v, want %+v", got, err, want)
		}
	})
}

func TestIdentityRoundTrip(t *testing.T) {
	want := Identity{Cluster: "c", Slot: "a", Volume: "local:a", Epoch: 7}.Fresh()
	if got, err := parseIdentity([]byte(want.String())); err != nil || got != want {
		t.Fatalf("got %+v, %v, want %+v", got, err, want)
	}
}

func TestParseTag(t *testing.T) {
	for _, test := range []struct {
		text  string
		newer bool
	}{
		{``, false},
		{`{"version":1,"epoch":3,"owner":"n1","non`, false},
		{`{"epoch":3,"owner":"n1","nonce":"x","phase":"held"}`, false},
		{`{"version":1,"epoch":0,"owner":"n1","nonce":"x","phase":"held"}`, false},
		{`{"version":1,"epoch":18446744073709551615,"owner":"n1","nonce":"x","phase":"held"}`, false},
		{`{"version":1,"epoch":3,"owner":"","nonce":"x","phase":"held"}`, false},
		{`{"version":1,"epoch":3,"owner":"n1","phase":"held"}`, false},
		{`{"version":1,"epoch":3,"owner":"n1","nonce":"x","phase":"lent"}`, false},
		{`{"version":2,"anything":[]}`, true},
	} {
		_, err := parseTag([]byte(test.text))
		if err == nil || errors.Is(err, ErrNewer) != test.newer {
			t.Errorf("%s: got %v, want an error, newer: %v", test.text, err, test.newer)
		}
	}
}

func FuzzParseTag(f *testing.F) {
	f.Add([]byte(claimTag{Epoch: 1, Owner: "n1", Nonce: "x", Phase: PhaseHeld}.String()))
	f.Add([]byte(`{"version":2}`))
	f.Add([]byte(`{"version":1,"Version":2,"epoch":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		tag, err := parseTag(data)
		if err != nil {
			return
		}
		if got, err := parseTag([]byte(tag.String())); err != nil || got != tag {
			t.Errorf("got %+v, %v, want %+v", got, err, tag)
		}
	})
}

func FuzzParseIdentity(f *testing.F) {
	f.Add([]byte(Identity{Cluster: "c", Slot: "a", Volume: "local:a", Epoch: 7}.Fresh().String()))
	f.Add([]byte(`{"version":1,"cluster":"c","created":"2006-01-02T15:04:05+07:00"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		id, err := parseIdentity(data)
		if err != nil {
			return
		}
		again, err := parseIdentity([]byte(id.String()))
		if err != nil || again.String() != id.String() || !again.Created.Equal(id.Created.Round(0)) {
			t.Errorf("got %+v, %v, want %+v", again, err, id)
		}
		if why := id.Mismatch(again); why != "" {
			t.Error(why)
		}
	})
}

func TestMismatchNamesWhatDiffers(t *testing.T) {
	should := Identity{Cluster: "c", Slot: "a", Volume: "local:a", Disk: "d1", Epoch: 1}
	same := should
	same.Epoch, same.Created = 99, time.Now()
	if got := should.Mismatch(same); got != "" {
		t.Errorf("epoch and age: got %q, want none", got)
	}
	for want, change := range map[string]func(*Identity){
		`its identity names cluster "x", expected "c"`:      func(i *Identity) { i.Cluster = "x" },
		`its identity names slot "x", expected "a"`:         func(i *Identity) { i.Slot = "x" },
		`its identity names volume "x", expected "local:a"`: func(i *Identity) { i.Volume = "x" },
		`its identity names disk "x", expected "d1"`:        func(i *Identity) { i.Disk = "x" },
	} {
		found := should
		change(&found)
		if got := should.Mismatch(found); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	should.Disk = ""
	if got := should.Mismatch(same); got != "" {
		t.Errorf("unknown disk: got %q, want none", got)
	}
}
