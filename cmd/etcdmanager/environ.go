package etcdmanager

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"holdfast/cmd/config"
)

// metricsVariable is etcd's variable for --listen-metrics-urls.
const metricsVariable = "ETCD_LISTEN_METRICS_URLS"

// service matches the variables that Kubernetes sets for a service called etcd.
var service = regexp.MustCompile(`^ETCD_(SERVICE_HOST|SERVICE_PORT(_.*)?|PORT(_\d+_(TCP|UDP|SCTP)(_.*)?)?)$`)

// ours matches etcd's variables for settings that holdfast decides. secure matches those that holdfast does not have,
// and without which etcd would be less secure.
var (
	ours = regexp.MustCompile(`^ETCD_(NAME|DATA_DIR|WAL_DIR|CONFIG_FILE|FORCE_NEW_CLUSTER|` +
		`INITIAL_(CLUSTER|ADVERTISE).*|DISCOVERY.*|(PEER_)?AUTO_TLS)$`)
	secure = regexp.MustCompile(`^ETCD_(CIPHER_SUITES|TLS_M(IN|AX)_VERSION|(CLIENT|PEER)_CRL_FILE|` +
		`CLIENT_CERT_ALLOWED_HOSTNAME|(PEER_)?CLIENT_(CERT|KEY)_FILE|AUTH_TOKEN|HOST_WHITELIST)$`)
)

// variables translates the environment: etcd's own settings, which override the flags as in etcd-manager, those of
// etcd-manager, and those of S3.
func (t *translation) variables() {
	keys := map[string]bool{}
	for _, k := range config.Keys() {
		keys[k.Name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(t.environ)) {
		value := t.environ[name]
		key := "etcd." + strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(name, "ETCD_")), "_", "-")
		switch {
		case value == "" || service.MatchString(name) || name == metricsVariable:
		case strings.HasPrefix(name, "ETCD_MANAGER_"):
			t.manager(name, value)
		case name == "KOPS_STATE_S3_ACL":
			t.warn("%s: has no effect here: objects have the bucket's own rights", name)
		case !strings.HasPrefix(name, "ETCD_"):
		case ours.MatchString(name):
			t.wrong(name, "must not be set, got %q: holdfast decides it", value)
		case secure.MatchString(name):
			t.wrong(name, "must not be set, got %q: holdfast has no such setting, and would serve without what it asks for",
				value)
		case keys[key] && key != "etcd.peer-url":
			t.set(key, value, "env "+name)
		default:
			t.warn("%s: has no effect here: holdfast has no such setting of etcd's", name)
		}
	}
	least := t.retention("snapshot.keep.hourly", "ETCD_MANAGER_HOURLY_BACKUPS_RETENTION", "7d",
		config.Default().Snapshot.Keep.All)
	t.retention("snapshot.keep.daily", "ETCD_MANAGER_DAILY_BACKUPS_RETENTION", "2y", least)
	t.s3()
}

// retention sets a key to the value of a variable, or to etcd-manager's default. A time that ends within the one before
// it (least) keeps nothing more in etcd-manager, which holdfast calls 0s. It returns the longer of the two.
func (t *translation) retention(key, name, usual string, least time.Duration) time.Duration {
	text, origin := usual, name+" is not set"
	if value := t.environ[name]; value != "" {
		text, origin = value, "env "+name
	}
	d, err := config.ParseDuration(text)
	if err == nil && d >= 0 && d < least {
		text = "0s"
	}
	t.set(key, text, origin)
	return max(d, least)
}

func (t *translation) manager(name, value string) {
	switch name {
	case "ETCD_MANAGER_HOURLY_BACKUPS_RETENTION", "ETCD_MANAGER_DAILY_BACKUPS_RETENTION": // retention
	case "ETCD_MANAGER_CERT_DURATION":
		t.set("tls.leaf-life", value, "env "+name)
	case "ETCD_MANAGER_CERT_MIN_TIME_LEFT":
		t.warn("%s: has no effect here: certificates are renewed at two thirds of their life, while the node runs", name)
	default:
		t.warn("%s: has no effect here: no such variable of etcd-manager is known", name)
	}
}

// s3 translates the variables for an S3 service other than AWS.
func (t *translation) s3() {
	endpoint := t.environ["S3_ENDPOINT"]
	if endpoint == "" {
		return
	}
	if !strings.Contains(endpoint, "://") {
		endpoint = "https://" + endpoint
	}
	t.set("snapshot.s3.endpoint", endpoint, "env S3_ENDPOINT")
	t.set("snapshot.s3.path-style", "true", "env S3_ENDPOINT")
	if region := t.environ["S3_REGION"]; region != "" {
		t.set("snapshot.s3.region", region, "env S3_REGION")
	}
	id, secret := t.environ["S3_ACCESS_KEY_ID"], t.environ["S3_SECRET_ACCESS_KEY"]
	switch {
	case id == "" && secret == "":
	case t.VolumeProvider == "aws":
		t.wrong("S3_ACCESS_KEY_ID", "must not be set with --volume-provider=aws: EC2 would be asked with it, too; "+
			"use a bucket that the instance's role may write")
	default:
		t.Environment = map[string]string{"AWS_ACCESS_KEY_ID": id, "AWS_SECRET_ACCESS_KEY": secret}
	}
}
