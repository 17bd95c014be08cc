package discover

import (
	"bytes"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
)

// hostsFile keeps a block in a file like /etc/hosts (hosts(5)): a line for each member with its names, of which
// <slot>.<cluster>.<domain> is the first, and with the cluster's. Lines bear a mark of their own beside those that
// enclose the block, so that a block that was torn apart can be told from what others wrote.
func hostsFile(path, cluster string, names Names, entries []Entry) outputFile {
	h := hostsBlock{cluster, names}
	return outputFile{Path: path, edit: func(old []byte) ([]byte, string) { return h.edit(old, entries) }}
}

// recallHosts reads the members from the block that an earlier process left, as far as it can be read.
func recallHosts(data []byte, cluster, zone string) []Entry {
	h := hostsBlock{cluster: cluster}
	var entries []Entry
	for line := range bytes.Lines(data) {
		fields := strings.Fields(string(line))
		if h.kind(line) != tagged || len(fields) < 2 {
			continue
		}
		ip, err := netip.ParseAddr(fields[0])
		slot, ours := strings.CutSuffix(fields[1], "."+zone)
		if err == nil && ours {
			entries = append(entries, Entry{Slot: slot, Address: ip})
		}
	}
	return entries
}

type hostsBlock struct {
	cluster string
	names   Names
}

func (h hostsBlock) begin() string {
	return fmt.Sprintf("# BEGIN holdfast cluster %s, kept by `holdfast discover`", h.cluster)
}
func (h hostsBlock) end() string { return fmt.Sprintf("# END holdfast cluster %s", h.cluster) }
func (h hostsBlock) tag() string { return "# holdfast " + h.cluster }

// text is the block, with the mark at its begin and at its end.
func (h hostsBlock) text(entries []Entry) []byte {
	var b bytes.Buffer
	fmt.Fprintln(&b, h.begin())
	for _, e := range entries {
		fmt.Fprintf(&b, "%s %s %s %s\n", e.Address, strings.Join(h.names.Of(e.Slot), " "), h.names.Zone, h.tag())
	}
	fmt.Fprintln(&b, h.end())
	return b.Bytes()
}

// A line is one of these.
const (
	theirs = 'x'
	begins = 'b'
	tagged = 't'
	ends   = 'e'
)

// whole are the kinds of our lines where they are one block, or there are none.
var whole = regexp.MustCompile(`^(bt*e)?$`)

func (h hostsBlock) kind(line []byte) byte {
	text := strings.TrimSpace(string(line))
	switch {
	case text == h.begin():
		return begins
	case text == h.end():
		return ends
	case strings.HasSuffix(text, " "+h.tag()):
		return tagged
	}
	return theirs
}

// edit puts the block where the first of our lines was, or at the end, and takes all our other lines away. With no
// entries nothing changes: nobody knows anything better than what stands there.
func (h hostsBlock) edit(old []byte, entries []Entry) (data []byte, note string) {
	if len(entries) == 0 {
		return old, ""
	}
	var before, after, ours bytes.Buffer
	rest, kinds := &before, []byte{}
	for line := range bytes.Lines(old) {
		if kind := h.kind(line); kind != theirs {
			rest, kinds = &after, append(kinds, kind)
			ours.Write(line)
			continue
		}
		rest.Write(line)
	}
	if n := before.Len(); n > 0 && before.Bytes()[n-1] != '\n' {
		before.WriteByte('\n')
	}
	if !whole.Match(kinds) || !bytes.Contains(old, ours.Bytes()) { // or a line of others is within
		note = fmt.Sprintf("the block of cluster %s was damaged or there twice: it was written again, and no "+
			"line of others was touched", h.cluster)
	}
	return append(append(before.Bytes(), h.text(entries)...), after.Bytes()...), note
}
