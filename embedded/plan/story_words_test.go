package plan

import (
	"hash/fnv"
	"strings"
)

// fields splits a line at spaces outside of double quotes, and drops the quotes.
func fields(line string) []string {
	quoted := false
	words := strings.FieldsFunc(line, func(c rune) bool {
		if c == '"' {
			quoted = !quoted
		}
		return c == ' ' && !quoted
	})
	for i := range words {
		words[i] = strings.ReplaceAll(words[i], `"`, "")
	}
	return words
}

// hash makes the IDs of clusters and members.
func hash(parts ...string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(strings.Join(parts, "\x00")))
	return h.Sum64()
}
