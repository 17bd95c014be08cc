package ec2test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// actions are the actions that this EC2 supports.
var actions = map[string]func(*Cloud, request) (response, error){
	"DescribeVolumes":   (*Cloud).describeVolumes,
	"DescribeInstances": (*Cloud).describeInstances,
	"AttachVolume":      (*Cloud).attachVolume,
	"DetachVolume":      (*Cloud).detachVolume,
	"CreateTags":        (*Cloud).createTags,
	"DeleteTags":        (*Cloud).deleteTags,
	"CreateVolume":      (*Cloud).createVolume,
}

// attachmentXML is an attachment, in a volume or as the answer of AttachVolume.
type attachmentXML struct {
	VolumeID   string `xml:"volumeId"`
	InstanceID string `xml:"instanceId,omitempty"` // absent: managed by AWS
	Device     string `xml:"device"`
	Status     string `xml:"status"`
	AttachTime string `xml:"attachTime"`
}

type attachmentResponse struct {
	head
	attachmentXML
}

func wireAttachment(volume string, a Attachment) attachmentXML {
	return attachmentXML{volume, a.Instance, a.Device, a.State, wireTime(a.Since)}
}

func wireTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

type tagXML struct {
	Key   string `xml:"key"`
	Value string `xml:"value"`
}

func wireTags(tags map[string]string) []tagXML {
	var all []tagXML
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		all = append(all, tagXML{k, tags[k]})
	}
	return all
}

func (c *Cloud) attachVolume(q request) (response, error) {
	volume, err := q.required("VolumeId")
	if err != nil {
		return nil, err
	}
	instance, err := q.required("InstanceId")
	if err != nil {
		return nil, err
	}
	device, err := q.required("Device")
	if err != nil {
		return nil, err
	}
	a, err := c.attach(volume, instance, device, q.faults)
	if err != nil {
		return nil, err
	}
	return &attachmentResponse{attachmentXML: wireAttachment(volume, a)}, nil
}

func (c *Cloud) detachVolume(q request) (response, error) {
	volume, err := q.required("VolumeId")
	if err != nil {
		return nil, err
	}
	a, err := c.detach(volume, q.form.Get("InstanceId"), q.form.Get("Device"), q.form.Get("Force") == "true",
		q.faults.delay(Slow))
	if err != nil {
		return nil, err
	}
	return &attachmentResponse{attachmentXML: wireAttachment(volume, a)}, nil
}

// returnResponse is an answer that only says that the request was accepted.
type returnResponse struct {
	head
	Return bool `xml:"return"`
}

// tag is a tag in a request; Value is nil when none was given.
type tag struct {
	Key   string
	Value *string
}

// tags reads Prefix.1.Key, Prefix.1.Value, Prefix.2.Key, ….
func (q request) tags(prefix string) []tag {
	var all []tag
	for n := 1; q.form.Has(prefix + "." + strconv.Itoa(n) + ".Key"); n++ {
		at := prefix + "." + strconv.Itoa(n)
		t := tag{Key: q.form.Get(at + ".Key")}
		if q.form.Has(at + ".Value") {
			v := q.form.Get(at + ".Value")
			t.Value = &v
		}
		all = append(all, t)
	}
	return all
}

// checkTags checks new tags against the limits of EC2.
func checkTags(tags []tag) error {
	for _, t := range tags {
		switch {
		case t.Key == "" || len([]rune(t.Key)) > 127:
			return &apiError{"InvalidParameterValue", "Tag key must have 1 to 127 characters"}
		case t.Value != nil && len([]rune(*t.Value)) > 256:
			return &apiError{"InvalidParameterValue", "Tag value exceeds the maximum length of 256 characters"}
		case strings.HasPrefix(strings.ToLower(t.Key), "aws:"):
			return &apiError{"InvalidParameterValue", "Tag keys starting with 'aws:' are reserved for internal use"}
		}
	}
	return nil
}

// tagged changes the tags of all resources of a request, or of none.
func (c *Cloud) tagged(q request, edit func(tags map[string]string, t tag)) (response, error) {
	resources, tags := q.list("ResourceId"), q.tags("Tag")
	if len(resources) == 0 || len(tags) == 0 && q.action == "CreateTags" {
		return nil, &apiError{"MissingParameter", "The request must contain resources and tags"}
	}
	if err := checkTags(tags); err != nil {
		return nil, err
	}
	err := c.change(func(s *State) error {
		for _, id := range resources {
			of, err := s.tagsOf(id)
			if err != nil {
				return err
			}
			if len(tags) == 0 { // DeleteTags without tags: all of them
				maps.DeleteFunc(of, func(k, _ string) bool { return !strings.HasPrefix(k, "aws:") })
			}
			for _, t := range tags {
				edit(of, t)
			}
			if len(of) > 50 {
				return &apiError{"TagLimitExceeded", "The maximum number of Tags for a resource has been reached."}
			}
		}
		return nil
	})
	return &returnResponse{Return: true}, err
}

// tagsOf returns the tags of a volume or an instance, to be changed.
func (s *State) tagsOf(id string) (map[string]string, error) {
	if v := s.volume(id); v != nil {
		return v.Tags, nil
	}
	if i := s.instance(id); i != nil {
		if i.Tags == nil {
			i.Tags = map[string]string{}
		}
		return i.Tags, nil
	}
	switch {
	case strings.HasPrefix(id, "vol-"):
		return nil, noVolume(id)
	case strings.HasPrefix(id, "i-"):
		return nil, noInstance(id)
	}
	return nil, &apiError{"InvalidID", fmt.Sprintf("The ID '%s' is not valid", id)}
}

func (c *Cloud) createTags(q request) (response, error) {
	return c.tagged(q, func(tags map[string]string, t tag) {
		tags[t.Key] = ""
		if t.Value != nil {
			tags[t.Key] = *t.Value
		}
	})
}

// deleteTags compares the value if there is one, and does not say whether anything was deleted.
func (c *Cloud) deleteTags(q request) (response, error) {
	return c.tagged(q, func(tags map[string]string, t tag) {
		if v, ok := tags[t.Key]; ok && (t.Value == nil || *t.Value == v) {
			delete(tags, t.Key)
		}
	})
}
