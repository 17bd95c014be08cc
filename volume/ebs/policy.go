package ebs

import (
	"regexp"
	"slices"
	"strings"
)

// DefaultPartition is the partition of AWS that most accounts are in. aws-cn (China) and aws-us-gov (GovCloud) are
// others; the ARNs of a policy must name the partition of its account.
const DefaultPartition = "aws"

var partition = regexp.MustCompile(`^aws(-[a-z]+)*$`)

// selected are the conditions that only the cluster's volumes meet.
func (c Config) selected() map[string]map[string][]string {
	all := map[string]map[string][]string{}
	for _, t := range slices.Sorted(slices.Values(c.Tags)) {
		operator := "StringEquals"
		key, value, _ := strings.Cut(t, "=")
		if value == "" {
			operator, value = "StringLike", "*" // the tag must be there
		}
		if all[operator] == nil {
			all[operator] = map[string][]string{}
		}
		all[operator]["aws:ResourceTag/"+key] = []string{value}
	}
	return all
}
