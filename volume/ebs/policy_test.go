package ebs

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
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
	"takes over": {func(c *Config) { c.Takeover = takeoverStopped }, "aws"},
}

func policyOf(t *testing.T, name string) (p policy, c Config) {
	t.Helper()
	c = Default()
	policies[name].change(&c)
	text, err := c.Policy("main", policies[name].partition)
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	var tight bytes.Buffer
	if err := json.Compact(&tight, text); err != nil || tight.Len() > 6144 { // IAM's limit for a managed policy
		t.Errorf("%s: %d bytes, %v", name, tight.Len(), err)
	}
	return p, c
}

var arnPattern = regexp.MustCompile(`^arn:(aws(?:-[a-z]+)*):ec2:\*:\*:([a-z]+)/\*$`)

// What AWS would refuse to save, or would save and never apply.
func TestPolicyFitsTheReference(t *testing.T) {
	operators := []string{"StringEquals", "StringLike", "ArnEquals", "ForAllValues:StringEquals", "Null"}
	for name, test := range policies {
		p, _ := policyOf(t, name)
		if p.Version != "2012-10-17" {
			t.Errorf("%s: got version %q", name, p.Version)
		}
		sids := map[string]bool{}
		for _, s := range p.Statement {
			if s.Effect != "Allow" || !regexp.MustCompile(`^[A-Za-z0-9]+$`).MatchString(s.Sid) || sids[s.Sid] {
				t.Errorf("%s: got statement %+v", name, s)
			}
			sids[s.Sid] = true
			kind := ""
			if m := arnPattern.FindStringSubmatch(s.Resource); m != nil && m[1] == test.partition {
				kind = m[2]
			} else if s.Resource != "*" {
				t.Errorf("%s: %s: the resource %s is no ARN of the partition %s", name, s.Sid, s.Resource, test.partition)
			}
			for _, action := range s.Action {
				kinds, known := reference[action]
				keys, has := kinds[kind]
				if !known || has == (s.Resource == "*") || s.Resource == "*" && len(kinds) > 0 {
					t.Errorf("%s: %s: %s has no resource %s", name, s.Sid, action, s.Resource)
				}
				for operator, conditions := range s.Condition {
					if !slices.Contains(operators, operator) {
						t.Errorf("%s: %s: %s is no operator that is known here", name, s.Sid, operator)
					}
					for key := range conditions {
						general := regexp.MustCompile(`^(aws:(?:Resource|Request)Tag/).+`).ReplaceAllString(key, "${1}$${TagKey}")
						if !slices.Contains(keys, general) && !slices.Contains(ofTheCaller, key) {
							t.Errorf("%s: %s: %s does not know the condition key %s for %s", name, s.Sid, action, key, s.Resource)
						}
					}
				}
			}
		}
	}
	for _, bad := range []string{"", "AWS", "aws:", "arn:aws", "gcp"} {
		if _, err := Default().Policy("main", bad); err == nil {
			t.Errorf("partition %q: got no error", bad)
		}
	}
}

// resource is one thing that a request is about, with what the conditions see of it.
type resource struct {
	arn string
	ctx map[string][]string
}

var variable = regexp.MustCompile(`\$\{([^}]+)\}`)

// allows evaluates the policy as IAM does ("Policy evaluation logic" of the IAM guide), as far as it is used here: each
// resource of a request must be allowed by some statement.
func (p policy) allows(action string, about ...resource) bool {
	for _, r := range about {
		if !slices.ContainsFunc(p.Statement, func(s statement) bool {
			return slices.Contains(s.Action, action) && like(s.Resource, r.arn) && s.met(r.ctx)
		}) {
			return false
		}
	}
	return true
}

func (s statement) met(ctx map[string][]string) bool {
	for operator, conditions := range s.Condition {
		for key, wanted := range conditions {
			got, there := ctx[key]
			one := func(value string) bool {
				return slices.ContainsFunc(wanted, func(want string) bool {
					missing := false
					want = variable.ReplaceAllStringFunc(want, func(v string) string {
						values := ctx[v[2:len(v)-1]]
						if len(values) != 1 {
							missing = true
							return ""
						}
						return values[0]
					})
					return !missing && (operator == "StringEquals" || operator == "ForAllValues:StringEquals") && want == value ||
						!missing && (operator == "StringLike" || operator == "ArnEquals") && like(want, value)
				})
			}
			switch operator {
			case "Null":
				if there == (wanted[0] == "true") {
					return false
				}
			case "ForAllValues:StringEquals": // true of none
				if slices.ContainsFunc(got, func(v string) bool { return !one(v) }) {
					return false
				}
			default:
				if len(got) != 1 || !one(got[0]) {
					return false
				}
			}
		}
	}
	return true
}

func like(pattern, text string) bool {
	return regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, ".*") + "$").MatchString(text)
}

// What a stolen role must not be able to do, and what a node must.
func TestPolicyAllowsNoMoreThanANodeNeeds(t *testing.T) {
	for name, test := range policies {
		p, c := policyOf(t, name)
		arn := func(what string) string {
			return "arn:" + test.partition + ":ec2:eu-west-1:123456789012:" + what
		}
		with := func(arn string, tags map[string]string, more map[string][]string) resource {
			from := arn[:strings.LastIndex(arn, ":")] + ":instance/i-1"
			r := resource{arn, map[string][]string{"ec2:SourceInstanceARN": {from}}}
			for key, value := range tags {
				r.ctx["aws:ResourceTag/"+key] = []string{value}
			}
			for key, values := range more {
				r.ctx[key] = values
			}
			return r
		}
		ours := c.TagsOf("main", "a", []string{"a", "b", "c"}, nil)
		theirs := c.TagsOf("events", "a", []string{"a", "b", "c"}, nil)
		volume := func(tags map[string]string, keys ...string) resource {
			more := map[string][]string{}
			if keys != nil {
				more["aws:TagKeys"] = keys
			}
			return with(arn("volume/vol-1"), tags, more)
		}
		instance := func(id string) resource { // instances of kops have its tags, too
			return with(arn("instance/"+id), ours, map[string][]string{"ec2:InstanceID": {id}})
		}
		stopped := c.Takeover == takeoverStopped
		for what, check := range map[string]struct{ got, want bool }{
			"look":                         {p.allows("ec2:DescribeVolumes", resource{arn: "*"}), true},
			"look at instances":            {p.allows("ec2:DescribeInstances", resource{arn: "*"}), stopped},
			"attach ours here":             {p.allows("ec2:AttachVolume", volume(ours), instance("i-1")), true},
			"detach ours here":             {p.allows("ec2:DetachVolume", volume(ours), instance("i-1")), true},
			"attach ours elsewhere":        {p.allows("ec2:AttachVolume", volume(ours), instance("i-2")), false},
			"detach ours elsewhere":        {p.allows("ec2:DetachVolume", volume(ours), instance("i-2")), stopped},
			"attach theirs here":           {p.allows("ec2:AttachVolume", volume(theirs), instance("i-1")), false},
			"detach theirs elsewhere":      {p.allows("ec2:DetachVolume", volume(theirs), instance("i-2")), false},
			"attach one without tags":      {p.allows("ec2:AttachVolume", volume(nil), instance("i-1")), false},
			"write the claim":              {p.allows("ec2:CreateTags", volume(ours, TagClaim)), true},
			"write all":                    {p.allows("ec2:CreateTags", volume(ours, TagClaim, TagFormat, TagRecord)), true},
			"remove the claim":             {p.allows("ec2:DeleteTags", volume(ours, TagClaim)), true},
			"make it ours":                 {p.allows("ec2:CreateTags", volume(theirs, TagClaim)), false},
			"change the slot":              {p.allows("ec2:CreateTags", volume(ours, c.For("main").SlotTag)), false},
			"the slot beside the claim":    {p.allows("ec2:CreateTags", volume(ours, TagClaim, TagMember)), false},
			"remove every tag of a volume": {p.allows("ec2:DeleteTags", volume(ours)), false},
			"tag an instance":              {p.allows("ec2:CreateTags", instance("i-1")), false},
		} {
			if check.got != check.want {
				t.Errorf("%s: %s: got %t, want %t", name, what, check.got, check.want)
			}
		}
	}
}

// The page shows what the command prints.
func TestPolicyOfTheDocumentation(t *testing.T) {
	page, err := os.ReadFile("../../docs/aws.md")
	if err != nil {
		t.Fatal(err)
	}
	text, err := Default().Policy("main", DefaultPartition)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "```json\n"+string(text)+"```") {
		t.Errorf("docs/aws.md does not have the policy as it is:\n%s", text)
	}
}
