package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// adoptContradictions checks cluster.adopt-addresses against other keys.
func adoptContradictions(c Config) []contradiction {
	const key = "cluster.adopt-addresses"
	if len(c.Cluster.AdoptAddresses) > 0 && !c.Cluster.Adopt {
		return []contradiction{{[]string{key, "cluster.adopt"},
			fmt.Sprintf("must not be set without cluster.adopt, got %s", strings.Join(c.Cluster.AdoptAddresses, ","))}}
	}
	var found []contradiction
	for _, slot := range slices.Sorted(maps.Keys(c.Cluster.Elders())) {
		if !c.Cluster.TagSlots && !slices.Contains(c.Cluster.Slots, slot) {
			found = append(found, contradiction{[]string{key, "cluster.slots"},
				fmt.Sprintf("must name slots of cluster.slots (%s), got %q", strings.Join(c.Cluster.Slots, ", "), slot)})
		}
	}
	return found
}
