package config

import (
	"slices"
	"strings"
)

// sections returns what the key names begin with: "volume", "volume.local", ...
func sections(names []string) []string {
	var all []string
	for _, name := range names {
		for i, r := range name {
			if r == '.' {
				all = append(all, name[:i])
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// didYouMean returns ", did you mean x?" for the known key or section that
// Name is a slip of, or nothing.
func didYouMean(name string, names []string) string {
	if best := nearest(name, append(sections(names), names...)); best != "" {
		return ", did you mean " + best + "?"
	}
	return ""
}

// nearest returns the candidate that name is most likely a slip of: one a few
// edits away, or the only one with the same last word (a key in the wrong
// section). Empty: none is likely.
func nearest(name string, candidates []string) string {
	best, least := "", max(2, len(name)/4)+1
	for _, c := range candidates {
		if d := distance(name, c, least); d < least {
			best, least = c, d
		}
	}
	if best != "" {
		return best
	}
	last := name[strings.LastIndexByte(name, '.')+1:]
	var same []string
	for _, c := range candidates {
		if strings.HasSuffix(c, "."+last) {
			same = append(same, c)
		}
	}
	if len(same) == 1 {
		return same[0]
	}
	return ""
}

// distance is the number of bytes to insert, delete or replace to make b of a
// (Levenshtein), or some number ≥ limit when it is that large.
func distance(a, b string, limit int) int {
	if d := len(a) - len(b); d >= limit || -d >= limit { // also keeps a hostile key cheap
		return limit
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
