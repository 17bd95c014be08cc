package ec2test

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// createVolume makes a blank volume. A repetition with the same ClientToken returns the first volume.
func (c *Cloud) createVolume(q request) (response, error) {
	v, err := c.wanted(q)
	if err != nil {
		return nil, err
	}
	if v.Token != "" {
		// Two concurrent requests with one token must not make two volumes.
		once := c.disk("token " + v.Token)
		once.Lock()
		defer once.Unlock()
		for _, old := range c.State().Volumes {
			if old.Token != v.Token {
				continue
			}
			if old.Asked != v.Asked {
				return nil, &apiError{"IdempotentParameterMismatch", "The client token was used with other parameters"}
			}
			return &createResponse{volumeXML: wireVolume(old)}, nil
		}
	}
	v.State = creating
	id, err := c.addVolume(v)
	if err != nil {
		return nil, err
	}
	created := c.State().Volumes[id]
	c.later(q.faults.delay(Slow), func() {
		_ = c.changeVolume(id, func(v *Volume) error {
			v.State = available
			return nil
		})
	})
	return &createResponse{volumeXML: wireVolume(created)}, nil
}

type createResponse struct {
	head
	volumeXML
}

// wanted decodes a CreateVolume request.
func (c *Cloud) wanted(q request) (Volume, error) {
	v := Volume{
		Zone: q.form.Get("AvailabilityZone"), Type: q.form.Get("VolumeType"), KMSKey: q.form.Get("KmsKeyId"),
		Encrypted: q.form.Get("Encrypted") == "true", MultiAttach: q.form.Get("MultiAttachEnabled") == "true",
		Token: q.form.Get("ClientToken"), Asked: withoutToken(q.form), Tags: map[string]string{},
	}
	if v.Type == "" {
		v.Type = "gp2" // the documented default; AddVolume's is gp3
	}
	for name, to := range map[string]*int64{"Size": &v.Size, "Iops": &v.IOPS, "Throughput": &v.Throughput} {
		if s := q.form.Get(name); s != "" {
			n, err := strconv.ParseInt(s, 10, 64)
			if err != nil || n < 1 {
				return v, &apiError{"InvalidParameterValue", fmt.Sprintf("Invalid value '%s' for %s", s, name)}
			}
			*to = n
		}
	}
	for n := 1; q.form.Has(fmt.Sprintf("TagSpecification.%d.ResourceType", n)); n++ {
		at := fmt.Sprintf("TagSpecification.%d", n)
		if kind := q.form.Get(at + ".ResourceType"); kind != "volume" {
			return v, &apiError{"InvalidParameterValue",
				fmt.Sprintf("'%s' is not a valid taggable resource type for this operation.", kind)}
		}
		tags := q.tags(at + ".Tag")
		if err := checkTags(tags); err != nil {
			return v, err
		}
		for _, t := range tags {
			v.Tags[t.Key] = ""
			if t.Value != nil {
				v.Tags[t.Key] = *t.Value
			}
		}
	}
	return v, c.creatable(v)
}

func (c *Cloud) creatable(v Volume) error {
	provisioned := v.Type == "io1" || v.Type == "io2"
	switch {
	case v.Zone == "":
		return &apiError{"MissingParameter", "The request must contain the parameter AvailabilityZone"}
	case !strings.HasPrefix(v.Zone, c.options.Region):
		return &apiError{"InvalidZone.NotFound", fmt.Sprintf("The zone '%s' does not exist.", v.Zone)}
	case v.Size == 0:
		return &apiError{"MissingParameter", "The request must contain the parameter size/snapshotId"}
	case v.KMSKey != "" && !v.Encrypted:
		return &apiError{"InvalidParameterDependency", "The parameter KmsKeyId requires the parameter Encrypted to be set."}
	case provisioned && v.IOPS == 0:
		return &apiError{"MissingParameter", "The parameter iops must be specified for " + v.Type + " volumes."}
	case v.Throughput != 0 && v.Type != "gp3":
		return &apiError{"InvalidParameterCombination",
			"The parameter throughput is not supported for " + v.Type + " volumes."}
	case v.MultiAttach && !provisioned:
		return &apiError{"InvalidParameterCombination", "Multi-Attach is supported for io1 and io2 volumes only."}
	case len(v.Tags) > 50:
		return &apiError{"TagLimitExceeded", "The maximum number of Tags for a resource has been reached."}
	}
	return nil
}

func withoutToken(form url.Values) string {
	rest := url.Values{}
	for k, v := range form {
		if k != "ClientToken" {
			rest[k] = v
		}
	}
	return rest.Encode()
}
