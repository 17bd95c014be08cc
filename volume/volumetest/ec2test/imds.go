package ec2test

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"
)

// account is the account that owns everything.
const account = "123456789012"

// role is the role whose credentials the metadata service provides.
const role = "holdfast-node"

const (
	tokenHeader = "X-Aws-Ec2-Metadata-Token"
	ttlHeader   = "X-Aws-Ec2-Metadata-Token-Ttl-Seconds"
)

// tokens are the session tokens of the metadata service. The zero value is ready for use.
type tokens struct {
	mu  sync.Mutex
	all map[string]session
}

type session struct {
	instance string
	until    time.Time
}

func (t *tokens) issue(instance string, ttl time.Duration) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all == nil {
		t.all = map[string]session{}
	}
	token := rand.Text()
	t.all[token] = session{instance, time.Now().Add(ttl)}
	return token
}

func (t *tokens) valid(token, instance string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, ok := t.all[token]
	return ok && s.instance == instance && time.Now().Before(s.until)
}

// IMDS returns the metadata service of one instance. With "" it serves all instances, each recognised by the address of
// its requests.
func (c *Cloud) IMDS(instance string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := instance
		if id == "" {
			id = c.caller("", r.RemoteAddr)
		}
		i := c.State().Instances[id]
		if i == nil || i.State == stopped || i.State == terminated {
			hangUp() // no machine could have sent this request
		}
		f := c.faults.take(IMDS, id, nil)
		c.record.call(Call{Action: IMDS, Caller: id})
		switch {
		case f.has(LoseRequest) || f.has(LoseResponse) || f.has(Late):
			hangUp()
		case f.refusal() != nil:
			http.Error(w, f.refusal().Error(), http.StatusInternalServerError)
		default:
			c.serveMetadata(w, r, i)
		}
	})
}

func (c *Cloud) serveMetadata(w http.ResponseWriter, r *http.Request, i *Instance) {
	switch {
	case r.Header.Get("X-Forwarded-For") != "":
		w.WriteHeader(http.StatusForbidden)
	case r.Method == http.MethodPut && r.URL.Path == "/latest/api/token":
		ttl, err := strconv.Atoi(r.Header.Get(ttlHeader))
		if err != nil || ttl < 1 || ttl > 21600 {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.Header().Set(ttlHeader, strconv.Itoa(ttl))
		_, _ = w.Write([]byte(c.tokens.issue(i.ID, time.Duration(ttl)*time.Second)))
	case r.Method != http.MethodGet:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case !c.tokens.valid(r.Header.Get(tokenHeader), i.ID):
		w.WriteHeader(http.StatusUnauthorized)
	default:
		text, ok := c.metadata(i, path.Clean(r.URL.Path))
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = w.Write([]byte(text))
	}
}

// metadata returns the content of one path.
func (c *Cloud) metadata(i *Instance, path string) (string, bool) {
	switch strings.TrimPrefix(path, "/latest/") {
	case "meta-data/instance-id":
		return i.ID, true
	case "meta-data/instance-type":
		return i.Type, true
	case "meta-data/local-ipv4":
		return i.PrivateIP, true
	case "meta-data/placement/availability-zone":
		return i.Zone, true
	case "meta-data/placement/region":
		return c.options.Region, true
	case "meta-data/iam/security-credentials":
		return role, true
	case "meta-data/iam/security-credentials/" + role:
		return asJSON(map[string]any{
			"Code": "Success", "Type": "AWS-HMAC", "LastUpdated": wireTime(time.Now()),
			"Expiration":  wireTime(time.Now().Add(6 * time.Hour)),
			"AccessKeyId": AccessKey(i.ID), "SecretAccessKey": "secret", "Token": "token-" + i.ID,
		}), true
	case "dynamic/instance-identity/document":
		return asJSON(map[string]any{
			"accountId": account, "architecture": "arm64", "availabilityZone": i.Zone, "imageId": "ami-00000000000000001",
			"instanceId": i.ID, "instanceType": i.Type, "pendingTime": i.Launched.UTC().Format(time.RFC3339),
			"privateIp": i.PrivateIP, "region": c.options.Region, "version": "2017-09-30",
		}), true
	}
	text, ok := i.Metadata[strings.TrimPrefix(path, "/latest/meta-data/")]
	return text, ok
}

func asJSON(v any) string {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		panic(err) // maps of strings
	}
	return string(text)
}
