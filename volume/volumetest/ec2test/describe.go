package ec2test

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

type volumeXML struct {
	VolumeID    string          `xml:"volumeId"`
	Size        int64           `xml:"size"`
	Zone        string          `xml:"availabilityZone"`
	Status      string          `xml:"status"`
	CreateTime  string          `xml:"createTime"`
	VolumeType  string          `xml:"volumeType"`
	IOPS        int64           `xml:"iops,omitempty"`
	Throughput  int64           `xml:"throughput,omitempty"`
	Encrypted   bool            `xml:"encrypted"`
	KMSKeyID    string          `xml:"kmsKeyId,omitempty"`
	MultiAttach bool            `xml:"multiAttachEnabled"`
	Attachments []attachmentXML `xml:"attachmentSet>item"`
	Tags        []tagXML        `xml:"tagSet>item"`
}

func wireVolume(v *Volume) volumeXML {
	x := volumeXML{
		VolumeID: v.ID, Size: v.Size, Zone: v.Zone, Status: v.State, CreateTime: wireTime(v.Created), VolumeType: v.Type,
		IOPS: v.IOPS, Throughput: v.Throughput, Encrypted: v.Encrypted, KMSKeyID: v.KMSKey, MultiAttach: v.MultiAttach,
		Tags: wireTags(v.Tags),
	}
	for _, a := range v.Attachments {
		x.Attachments = append(x.Attachments, wireAttachment(v.ID, a))
	}
	return x
}

type instanceXML struct {
	InstanceID string   `xml:"instanceId"`
	StateCode  int      `xml:"instanceState>code"`
	StateName  string   `xml:"instanceState>name"`
	Type       string   `xml:"instanceType"`
	LaunchTime string   `xml:"launchTime"`
	Zone       string   `xml:"placement>availabilityZone"`
	PrivateIP  string   `xml:"privateIpAddress,omitempty"`
	Hibernate  bool     `xml:"hibernationOptions>configured"`
	Tags       []tagXML `xml:"tagSet>item"`
}

type reservationXML struct {
	ID        string        `xml:"reservationId"`
	OwnerID   string        `xml:"ownerId"`
	Instances []instanceXML `xml:"instancesSet>item"`
}

var stateCodes = map[string]int{pending: 0, running: 16, shuttingDown: 32, terminated: 48, stopping: 64, stopped: 80}

func wireInstance(i *Instance) reservationXML {
	return reservationXML{
		ID: "r-" + strings.TrimPrefix(i.ID, "i-"), OwnerID: account,
		Instances: []instanceXML{{
			InstanceID: i.ID, StateCode: stateCodes[i.State], StateName: i.State, Type: i.Type, LaunchTime: wireTime(i.Launched),
			Zone: i.Zone, PrivateIP: i.PrivateIP, Hibernate: i.Hibernate, Tags: wireTags(i.Tags),
		}},
	}
}

type volumesResponse struct {
	head
	Volumes   []volumeXML `xml:"volumeSet>item"`
	NextToken string      `xml:"nextToken,omitempty"`
}

type instancesResponse struct {
	head
	Reservations []reservationXML `xml:"reservationSet>item"`
	NextToken    string           `xml:"nextToken,omitempty"`
}

func (c *Cloud) describeVolumes(q request) (response, error) {
	var r volumesResponse
	s := c.read(q.faults)
	next, err := look(c, q, "VolumeId", s.Volumes, noVolume, volumeFilter, func(v *Volume) {
		r.Volumes = append(r.Volumes, wireVolume(v))
	})
	r.NextToken = next
	return &r, err
}

func (c *Cloud) describeInstances(q request) (response, error) {
	var r instancesResponse
	s := c.read(q.faults)
	next, err := look(c, q, "InstanceId", s.Instances, noInstance, instanceFilter, func(i *Instance) {
		r.Reservations = append(r.Reservations, wireInstance(i))
	})
	r.NextToken = next
	return &r, err
}

// look calls show for the resources that a request selects: those with its IDs, of which one that is missing fails the
// request, or else a page of all resources. Only resources that pass the filters are shown.
func look[T any](c *Cloud, q request, id string, all map[string]T, missing func(string) error,
	filter func(T, string) ([]string, bool), show func(T)) (next string, err error) {
	ids := q.list(id)
	if len(ids) > 0 && (q.form.Has("MaxResults") || q.form.Has("NextToken")) {
		return "", &apiError{"InvalidParameterCombination",
			"The parameter " + id + " cannot be used with the parameter maxResults"}
	}
	for _, id := range ids {
		if _, ok := all[id]; !ok {
			return "", missing(id)
		}
	}
	if len(ids) == 0 {
		ids, next, err = c.page(q, keys(all))
		if err != nil {
			return "", err
		}
	}
	filters := q.filters()
	for _, id := range ids {
		ok, err := passes(all[id], filters, filter)
		if err != nil {
			return "", err
		}
		if ok {
			show(all[id])
		}
	}
	return next, nil
}

func keys[T any](all map[string]T) []string {
	ids := make([]string, 0, len(all))
	for id := range all {
		ids = append(ids, id)
	}
	return ids
}

// bookmark is the content of a NextToken. A listing is ordered by a hash with its own seed, because EC2 promises no
// order. After is the last one on the pages so far.
type bookmark struct {
	Seed  uint64
	After uint64
}

// page returns one page. Filters are applied afterwards: a page may be empty without being the last.
func (c *Cloud) page(q request, ids []string) (page []string, next string, err error) {
	size := c.options.PageSize
	if s := q.form.Get("MaxResults"); s != "" {
		size, err = strconv.Atoi(s)
		if err != nil || size < 5 {
			return nil, "", &apiError{"InvalidParameterValue",
				fmt.Sprintf("Value ( %s ) for parameter maxResults is invalid. Expecting a value greater than 5.", s)}
		}
		size = min(size, 1000)
	}
	mark := bookmark{Seed: rand.Uint64()}
	if token := q.form.Get("NextToken"); token != "" {
		text, err := base64.RawURLEncoding.DecodeString(token)
		if err != nil || json.Unmarshal(text, &mark) != nil {
			return nil, "", &apiError{"InvalidNextToken", "The token is not valid"}
		}
	}
	place := func(id string) uint64 {
		h := fnv.New64a()
		fmt.Fprint(h, mark.Seed, id)
		return h.Sum64()
	}
	ids = slices.DeleteFunc(ids, func(id string) bool { return place(id) <= mark.After })
	slices.SortFunc(ids, func(a, b string) int { return cmp.Compare(place(a), place(b)) })
	if len(ids) <= size {
		return ids, "", nil
	}
	mark.After = place(ids[size-1])
	text, err := json.Marshal(mark)
	return ids[:size], base64.RawURLEncoding.EncodeToString(text), err
}

// criterion is one filter: its name, and the values, one of which must match.
type criterion struct {
	Name   string
	Values []string
}

func (q request) filters() []criterion {
	var all []criterion
	for n := 1; q.form.Has(fmt.Sprintf("Filter.%d.Name", n)); n++ {
		at := fmt.Sprintf("Filter.%d", n)
		all = append(all, criterion{q.form.Get(at + ".Name"), q.list(at + ".Value")})
	}
	return all
}

// passes reports whether a resource passes all filters.
func passes[T any](x T, filters []criterion, values func(T, string) ([]string, bool)) (bool, error) {
	for _, f := range filters {
		has, known := values(x, f.Name)
		if !known {
			return false, &apiError{"InvalidParameterValue", fmt.Sprintf("The filter '%s' is invalid", f.Name)}
		}
		if !slices.ContainsFunc(has, func(v string) bool {
			return slices.ContainsFunc(f.Values, func(pattern string) bool { return matches(pattern, v) })
		}) {
			return false, nil
		}
	}
	return true, nil
}

// matches compares a value with a pattern, in which * matches any characters and ? matches one.
func matches(pattern, value string) bool {
	p := strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(regexp.QuoteMeta(pattern))
	ok, err := regexp.MatchString(`(?s)^`+p+`$`, value)
	return ok && err == nil
}

// volumeFilter returns the values that a filter compares, and whether there is such a filter.
func volumeFilter(v *Volume, name string) ([]string, bool) {
	if name == "attachment.status" {
		var all []string
		for _, a := range v.Attachments {
			all = append(all, a.State)
		}
		return all, true
	}
	return tagFilter(v.Tags, name)
}

func instanceFilter(i *Instance, name string) ([]string, bool) { return tagFilter(i.Tags, name) }

func tagFilter(tags map[string]string, name string) ([]string, bool) {
	if key, ok := strings.CutPrefix(name, "tag:"); ok {
		if v, ok := tags[key]; ok {
			return []string{v}, true
		}
		return nil, true
	}
	if name == "tag-key" {
		return keys(tags), true
	}
	return nil, false
}
