package config

import (
	"slices"
	"strings"
	"sync"
)

// sections returns the names of all sections, sorted: "volume", "volume.local", ...
var sections = sync.OnceValue(func() []string {
	var all []string
	for _, k := range Keys() {
		for i, r := range k.Name {
			if r == '.' {
				all = append(all, k.Name[:i])
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
})

// didYouMean returns ", did you mean x?" if name is probably a slip of a known section or key, and "" otherwise.
func didYouMean(name string) string {
	names := make([]string, 0, len(Keys()))
	for _, k := range Keys() {
		names = append(names, k.Name)
	}
	slices.Sort(names)
	if best := nearest(name, slices.Concat(sections(), names)); best != "" {
		return ", did you mean " + best + "?"
	}
	return ""
}

// nearest returns the candidate that name is probably a slip of: one that is a few edits away, or the only one with the
// same last word (a key in the wrong section). It is "" if there is none.
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

// distance returns the number of bytes to insert, delete or replace to turn a into b (Levenshtein), or some number ≥
// limit if it is at least limit.
func distance(a, b string, limit int) int {
	if d := len(a) - len(b); d >= limit || -d >= limit { // also makes a very long key cheap
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
