package ebs

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// DefaultPartition is the partition of AWS that most accounts are in. aws-cn (China) and aws-us-gov (GovCloud) are
// others; the ARNs of a policy must name the partition of its account.
const DefaultPartition = "aws"

var partition = regexp.MustCompile(`^aws(-[a-z]+)*$`)

// policy is an IAM policy document.
type policy struct {
	Version   string
	Statement []statement
}

// statement allows actions on resources under conditions, which are values by operator and key.
type statement struct {
	Sid       string
	Effect    string
	Action    []string
	Resource  string
	Condition map[string]map[string][]string `json:",omitempty"`
}

// Policy returns, as JSON, the IAM policy of the nodes that claim a cluster's volumes: the least that works. With it a
// node attaches and detaches the cluster's volumes at its own instance only, and writes the holder's tags alone.
//
// Which action supports which resource and condition key is in "Actions, resources, and condition keys for Amazon EC2"
// of the Service Authorization Reference; a test has the part that matters here.
func (c Config) Policy(cluster, in string) ([]byte, error) {
	if !partition.MatchString(in) {
		return nil, fmt.Errorf("partition: must be aws, aws-cn, aws-us-gov or another one of AWS, got %q", in)
	}
	e := c.For(cluster)
	arn := func(resource string) string { return "arn:" + in + ":ec2:*:*:" + resource }
	allow := func(sid, resource string, conditions map[string]map[string][]string, actions ...string) statement {
		return statement{Sid: sid, Effect: "Allow", Action: actions, Resource: resource, Condition: conditions}
	}
	look := []string{"ec2:" + opVolumes}
	if e.Takeover == takeoverStopped {
		look = append(look, "ec2:"+opInstances)
	}
	written := e.selected()
	// ForAllValues is true of a request without any tag, which deletes all of them: hence Null.
	written["ForAllValues:StringEquals"] = map[string][]string{"aws:TagKeys": {e.ClaimTag, TagFormat, TagRecord}}
	written["Null"] = map[string][]string{"aws:TagKeys": {"false"}}
	own := map[string]map[string][]string{
		"ArnEquals": {"ec2:SourceInstanceARN": {arn("instance/${ec2:InstanceID}")}}}
	p := policy{Version: "2012-10-17", Statement: []statement{
		allow("Look", "*", nil, look...), // Describe actions know no resources
		allow("TheClustersVolumes", arn("volume/*"), e.selected(), "ec2:"+opAttach, "ec2:"+opDetach),
		allow("AtTheOwnInstance", arn("instance/*"), own, "ec2:"+opAttach, "ec2:"+opDetach),
		allow("TheHoldersTags", arn("volume/*"), written, "ec2:"+opTag, "ec2:"+opUntag),
	}}
	if e.Takeover == takeoverStopped {
		p.Statement = append(p.Statement, allow("FromStoppedInstances", arn("instance/*"), nil, "ec2:"+opDetach))
	}
	text, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the policy: %w", err)
	}
	return append(text, '\n'), nil
}

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
