package ebs

import (
	"regexp"
	"strings"
)

// reference is the part of "Actions, resources, and condition keys for Amazon EC2" of AWS's Service Authorization
// Reference (docs.aws.amazon.com/service-authorization/latest/reference/list_amazonec2.html, read in November 2026) that
// matters here: by action the types of resources that it is about, and by type the condition keys, without those for
// the properties of a volume or an instance that no policy of ours asks about. An action without types knows "*" only.
var reference = map[string]map[string][]string{
	"ec2:DescribeVolumes":   {},
	"ec2:DescribeInstances": {},
	"ec2:AttachVolume": {
		"instance": {"aws:ResourceTag/${TagKey}", "ec2:InstanceID", "ec2:ResourceTag/${TagKey}"},
		"volume":   {"aws:ResourceTag/${TagKey}", "ec2:ResourceTag/${TagKey}", "ec2:VolumeID"},
	},
	"ec2:DetachVolume": { // the instance is optional
		"instance": {"aws:ResourceTag/${TagKey}", "ec2:InstanceID", "ec2:ResourceTag/${TagKey}"},
		"volume":   {"aws:ResourceTag/${TagKey}", "ec2:ResourceTag/${TagKey}", "ec2:VolumeID"},
	},
	"ec2:CreateTags": {"volume": {"aws:RequestTag/${TagKey}", "aws:ResourceTag/${TagKey}", "aws:TagKeys"}},
	"ec2:DeleteTags": {"volume": {"aws:RequestTag/${TagKey}", "aws:ResourceTag/${TagKey}", "aws:TagKeys"}},
}

// ofTheCaller are the keys that are in every request of an instance's role, whatever the action ("Condition keys for
// Amazon EC2" of the same page). EC2's guide says that ec2:SourceInstanceARN cannot populate a Resource.
var ofTheCaller = []string{"ec2:SourceInstanceARN"}

var policies = map[string]struct {
	change    func(*Config)
	partition string
}{
	"own tags":   {func(*Config) {}, "aws"},
	"China":      {func(*Config) {}, "aws-cn"},
	"GovCloud":   {func(*Config) {}, "aws-us-gov"},
	"kops":       {func(c *Config) { c.KubernetesCluster = "k8s.example.com" }, "aws"},
	"claim tag":  {func(c *Config) { c.ClaimTag = "team:claim" }, "aws"},
	"takes over": {func(c *Config) { c.Takeover = TakeoverStopped }, "aws"},
}

var arnPattern = regexp.MustCompile(`^arn:(aws(?:-[a-z]+)*):ec2:\*:\*:([a-z]+)/\*$`)

// resource is one thing that a request is about, with what the conditions see of it.
type resource struct {
	arn string
	ctx map[string][]string
}

func like(pattern, text string) bool {
	return regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, ".*") + "$").MatchString(text)
}
