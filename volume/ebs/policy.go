package ebs

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// DefaultPartition is the AWS partition of most accounts. Others are aws-cn (China) and aws-us-gov (GovCloud). The ARNs
// of a policy must name the partition of the account.
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

// Policy returns, as JSON, the least IAM policy with which nodes can claim a cluster's volumes. It lets a node attach
// and detach the cluster's volumes only at its own instance, and write only the holder's tags.
//
// "Actions, resources, and condition keys for Amazon EC2" in the Service Authorization Reference lists which action
// supports which resource and condition key. A test has the part that matters here.
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
	// ForAllValues is true for a request without any tag, which would delete all tags. Null excludes such a request.
	written["ForAllValues:StringEquals"] = map[string][]string{"aws:TagKeys": {TagClaim, TagFormat, TagRecord}}
	written["Null"] = map[string][]string{"aws:TagKeys": {"false"}}
	own := map[string]map[string][]string{
		"ArnEquals": {"ec2:SourceInstanceARN": {arn("instance/${ec2:InstanceID}")}}}
	p := policy{Version: "2012-10-17", Statement: []statement{
		allow("Look", "*", nil, look...), // Describe actions do not support resources
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

// selected returns the conditions that only the cluster's volumes meet.
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
