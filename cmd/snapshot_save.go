package cmd

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	clientv3 "go.etcd.io/etcd/client/v3"
	etcdflags "go.etcd.io/etcd/pkg/v3/flags"
	"go.uber.org/zap"

	"holdfast/cmd/config"
	"holdfast/cmd/control"
	"holdfast/snapshot/etcdclient"
)

// remoteFlags say how an etcd is reached that we do not run, in etcdctl's words.
type remoteFlags struct {
	endpoints []string
	secure    clientv3.SecureConfig
	user      string
	password  string
	fs        *pflag.FlagSet // of all but the endpoints
}

// add adds the flags. The endpoints have no variable, unlike with etcdctl: one that is set for etcdctl must not turn a
// backup of this node into one of something else.
func (r *remoteFlags) add(fs *pflag.FlagSet) {
	fs.StringSliceVar(&r.endpoints, "endpoints", nil,
		"save the etcd at these `URLs`, of one member, instead of this node's")
	r.fs = pflag.NewFlagSet("etcdctl", pflag.ContinueOnError)
	r.fs.StringVar(&r.secure.Cacert, "cacert", "",
		"with --endpoints: `file` of the CAs that sign the servers' certificates")
	r.fs.StringVar(&r.secure.Cert, "cert", "", "with --endpoints: `file` of our certificate")
	r.fs.StringVar(&r.secure.Key, "key", "", "with --endpoints: `file` of its key")
	r.fs.BoolVar(&r.secure.InsecureSkipVerify, "insecure-skip-tls-verify", false,
		"with --endpoints: believe any certificate, for tests only")
	r.fs.StringVar(&r.user, "user", "", "with --endpoints: `name[:password]`")
	r.fs.StringVar(&r.password, "password", "", "with --endpoints: `password` of the user")
	fs.AddFlagSet(r.fs)
}

// unused returns an error if flags were given that only mean something with --endpoints.
func (r *remoteFlags) unused(given *pflag.FlagSet) error {
	var err error
	r.fs.VisitAll(func(f *pflag.Flag) {
		if given.Changed(f.Name) {
			err = fmt.Errorf("--%s is for --endpoints, which is not given: this node would be saved", f.Name)
		}
	})
	return err
}

// config returns the configuration of a client.
func (r *remoteFlags) config() (clientv3.Config, error) {
	if err := etcdflags.SetPflagsFromEnv(nil, "ETCDCTL", r.fs); err != nil {
		return clientv3.Config{}, err
	}
	user, password, split := strings.Cut(r.user, ":")
	if split && r.password != "" {
		return clientv3.Config{}, errors.New("--password: must be empty when --user holds one")
	}
	if password = cmp.Or(password, r.password); user != "" && password == "" {
		return clientv3.Config{}, errors.New("--password: must be set with --user (ETCDCTL_PASSWORD in the environment keeps it out of `ps`)")
	}
	r.secure.InsecureTransport = true // as etcdctl: the scheme of a URL decides
	if len(r.endpoints) == 0 {
		return clientv3.Config{}, errors.New(`--endpoints: must be URLs such as https://10.0.0.1:2379, got ""`)
	}
	for _, e := range r.endpoints {
		if u, err := url.Parse(e); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return clientv3.Config{}, fmt.Errorf("--endpoints: must be URLs such as https://10.0.0.1:2379, got %q", e)
		}
	}
	cfg, err := clientv3.NewClientConfig(&clientv3.ConfigSpec{
		Endpoints: r.endpoints, DialTimeout: etcdclient.Timeout, KeepAliveTime: etcdclient.Timeout,
		KeepAliveTimeout: etcdclient.Timeout,
		Secure:           &r.secure, Auth: &clientv3.AuthConfig{Username: user, Password: password},
	}, zap.NewNop())
	if err != nil {
		return clientv3.Config{}, fmt.Errorf("read --cacert, --cert and --key: %w", err)
	}
	cfg.Logger = zap.NewNop()
	return *cfg, nil
}

// node is the client of the node on this machine, which saves its member where no endpoints are given.
func (r *remoteFlags) node(c *cobra.Command, l *config.Loaded) (*control.Client, error) {
	if err := r.unused(c.Flags()); err != nil {
		return nil, err
	}
	return control.Open(l.Config.Control)
}
