package ebs

import (
	"crypto/rand"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/volume"
)

func TestTagIsReadAsItWasWritten(t *testing.T) {
	for _, at := range []string{"10.0.0.1:7946", "[fd00::1]:7946"} {
		want := claimTag{Epoch: 7, Instance: "i-0123456789abcdef0", Node: "ip-10-0-0-1.ec2.internal", Nonce: rand.Text(),
			Phase: volume.PhaseHeld, Since: time.Unix(1700000000, 0).UTC(), Address: netip.MustParseAddrPort(at)}
		got, err := parseTag(want.String())
		if err != nil || got != want {
			t.Errorf("%s: got %+v, %v, want %+v", want, got, err, want)
		}
	}
}

// A claim with the longest possible names fits into a tag, and every AWS service allows its characters.
func TestTagFits(t *testing.T) {
	text := claimTag{Epoch: volume.MaxEpoch, Instance: "i-0123456789abcdef0", Node: strings.Repeat("n", 63),
		Nonce: rand.Text(), Phase: volume.PhaseClaiming, Since: time.Unix(1<<33, 0),
		Address: netip.MustParseAddrPort("[2001:db8:ffff:ffff:ffff:ffff:ffff:ffff]:65535")}.String()
	if len(text) > 255 {
		t.Errorf("got %d characters, want at most 255: %s", len(text), text)
	}
	if i := strings.IndexFunc(text, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(" +-=._:/@", r))
	}); i >= 0 {
		t.Errorf("%q has %q, which not every service allows in tags", text, text[i])
	}
}

func TestTagsOfOthersAreNotRead(t *testing.T) {
	good := "v1/7/i-1/n1/abc/held/1700000000/10.0.0.1/7946"
	if _, err := parseTag(good); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{
		"", "a", "v2/7/i-1/n1/abc/held/1700000000/10.0.0.1/7946", good + "/more",
		strings.Replace(good, "/7/", "/0/", 1), strings.Replace(good, "/7/", "/-1/", 1), strings.Replace(good, "/7/", "/18446744073709551615/", 1),
		strings.Replace(good, "held", "released", 1), strings.Replace(good, "/i-1/", "//", 1), strings.Replace(good, "/abc/", "//", 1),
		strings.Replace(good, "7946", "79460", 1), strings.Replace(good, "10.0.0.1", "host", 1), strings.Replace(good, "10.0.0.1", "fe80::1%eth0", 1),
		strings.Replace(good, "1700000000", "today", 1), strings.Replace(good, "n1", "\x1b[2J", 1), strings.Replace(good, "n1", "n\n1", 1),
	} {
		if tag, err := parseTag(bad); err == nil || !strings.Contains(err.Error(), "parse claim") {
			t.Errorf("%q: got %+v, %v, want an error", bad, tag, err)
		}
	}
}

func FuzzParseTag(f *testing.F) {
	f.Add("v1/7/i-1/n1/abc/held/1700000000/10.0.0.1/7946")
	f.Add("v1/1/i-1//abc/claiming/-1/::1/0")
	f.Fuzz(func(t *testing.T, text string) {
		tag, err := parseTag(text)
		if err != nil {
			return
		}
		again, err := parseTag(tag.String())
		if err != nil || again != tag {
			t.Errorf("%q: got %+v, then %+v, %v", text, tag, again, err)
		}
	})
}

func TestSlotTags(t *testing.T) {
	for _, test := range []struct {
		value, slot string
		all         []string
	}{
		{"a", "a", nil},
		{"a/a,b,c", "a", []string{"a", "b", "c"}},
		{"b/c,b,a", "b", []string{"a", "b", "c"}}, // kops sorts them; others need not
		{"", "", nil},
	} {
		slot, all := Config{SlotTag: "slot"}.slot(Volume{Tags: map[string]string{"slot": test.value}})
		if slot != test.slot || !slices.Equal(all, test.all) {
			t.Errorf("%q: got %q, %v, want %q, %v", test.value, slot, all, test.slot, test.all)
		}
	}
}
