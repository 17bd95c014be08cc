package ebs

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"holdfast/volume"
)

// claimTag is a claim as written in a volume's tag: which node wants or holds the volume, and its address. It is a
// hint, never a lock.
//
// Its text is v1/<epoch>/<instance>/<node>/<nonce>/<phase>/<unix time>/<address>/<port>. It uses characters that every
// AWS service allows in tags, and is shorter than the limit of 256 for a value.
type claimTag struct {
	Epoch    uint64
	Instance string
	Node     string
	Nonce    string // of this claim, random: crypto/rand.Text
	Phase    volume.Phase
	Since    time.Time      // when the phase began, in seconds; for people only
	Address  netip.AddrPort // of the node's gossip
}

const tagVersion = "v1"

// tagText matches the characters of a claim's text. What others write is shown to people.
var tagText = regexp.MustCompile(`^[-A-Za-z0-9 +=._:/@]*$`)

// String returns the value of the tag, for parseTag.
func (t claimTag) String() string {
	return strings.Join([]string{tagVersion, strconv.FormatUint(t.Epoch, 10), t.Instance, t.Node, t.Nonce, string(t.Phase),
		strconv.FormatInt(t.Since.Unix(), 10), t.Address.Addr().String(), strconv.Itoa(int(t.Address.Port()))}, "/")
}

// parseTag parses the text of String. An error means that another program or a later version wrote the tag.
func parseTag(text string) (claimTag, error) {
	parts := strings.Split(text, "/")
	if parts[0] != tagVersion || len(parts) != 9 || !tagText.MatchString(text) {
		return claimTag{}, fmt.Errorf("parse claim %q: it is not one of version %s", text, tagVersion)
	}
	t := claimTag{Instance: parts[2], Node: parts[3], Nonce: parts[4], Phase: volume.Phase(parts[5])}
	var errs [4]error
	var unix int64
	var port uint64
	var at netip.Addr
	t.Epoch, errs[0] = strconv.ParseUint(parts[1], 10, 64)
	unix, errs[1] = strconv.ParseInt(parts[6], 10, 64)
	at, errs[2] = netip.ParseAddr(parts[7])
	port, errs[3] = strconv.ParseUint(parts[8], 10, 16)
	if err := errors.Join(errs[:]...); err != nil {
		return claimTag{}, fmt.Errorf("parse claim %q: %w", text, err)
	}
	if t.Epoch == 0 || t.Epoch > volume.MaxEpoch || t.Instance == "" || t.Nonce == "" || at.Zone() != "" ||
		!slices.Contains([]volume.Phase{volume.PhaseClaiming, volume.PhaseHeld}, t.Phase) {
		return claimTag{}, fmt.Errorf("parse claim %q: a part of it is out of range", text)
	}
	t.Since, t.Address = time.Unix(unix, 0).UTC(), netip.AddrPortFrom(at, uint16(port))
	return t, nil
}
