package embedded

import (
	"strings"
)

// PeerHost is the host name in a pattern of peer URLs, with the {slot} that stands in it; "" if there is none.
func PeerHost(pattern string) string {
	_, rest, _ := strings.Cut(pattern, "://")
	host, _, _ := strings.Cut(rest, ":")
	return host
}

// slotMark stands for the slot in a pattern.
const slotMark = "{slot}"

// cutSlot returns what stands in text in the place of the pattern's {slot}.
func cutSlot(pattern, text string) (string, bool) {
	before, after, ok := strings.Cut(pattern, slotMark)
	rest, begins := strings.CutPrefix(text, before)
	if !ok || !begins {
		return "", false
	}
	slot, ok := strings.CutSuffix(rest, after)
	return slot, ok && slot != "" && !strings.Contains(slot, ".") // else the end of another pattern would match
}
