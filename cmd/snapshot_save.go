package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	clientv3 "go.etcd.io/etcd/client/v3"
	etcdflags "go.etcd.io/etcd/pkg/v3/flags"
	"go.uber.org/zap"

	"holdfast/cmd/backups"
	"holdfast/cmd/config"
	"holdfast/cmd/control"
	"holdfast/cmd/node"
	"holdfast/cmd/show"
	"holdfast/embedded/health"
	"holdfast/snapshot"
	"holdfast/snapshot/etcdclient"
)

func newSaveCommand() *cobra.Command {
	var format output
	var dryRun bool
	var remote remoteFlags
	c := configured(&cobra.Command{
		Use:   "save",
		Short: "Save a backup now, read it back and verify it",
	}, func(c *cobra.Command, loaded *config.Loaded, _ []string) error {
		of, err := remote.choose(c, loaded)
		if dryRun {
			return wouldSave(c, of, err, format)
		}
		start := time.Now()
		bar := show.NewProgress(c.ErrOrStderr())
		var saved node.Saved
		if err == nil {
			waits := time.AfterFunc(snapshot.Silence, func() {
				fmt.Fprintf(c.ErrOrStderr(), "nothing has been copied for %s: another save is under way, or a disk or the store "+
					"does not answer (see `holdfast status`); Ctrl-C ends the command\n", snapshot.Silence)
			})
			saved, err = of.Save(c.Context(), func(p snapshot.Progress) {
				waits.Stop()
				bar.Show(p)
			})
			waits.Stop()
		}
		bar.End()
		if err != nil {
			return fmt.Errorf("NOT saved: %w", err)
		}
		return format.write(c, saved, fmt.Sprintf(
			"saved %s in %s: revision %d, %d records, %s stored as %s, read back and verified in %s\n",
			saved.Name, saved.Store, saved.Content.Revision, saved.Content.Keys,
			health.Bytes(saved.Content.Size), health.Bytes(saved.Stored.Size), time.Since(start).Round(time.Millisecond)))
	})
	remote.add(c.Flags())
	addDryRun(c, &dryRun)
	return format.add(c)
}

// saver saves a backup: of any etcd at --endpoints, or of the node's own member.
type saver interface {
	Save(ctx context.Context, progress func(snapshot.Progress)) (node.Saved, error)
	Would(ctx context.Context) (node.Saved, error)
}

// wouldSave prints which member would be saved. It returns an error if the store does not answer.
func wouldSave(c *cobra.Command, of saver, err error, format output) error {
	var would node.Saved
	if err == nil {
		would, err = of.Would(c.Context())
	}
	if err != nil {
		return fmt.Errorf("nothing would be saved: %w", err)
	}
	return format.write(c, would, show.DryRun(fmt.Sprintf("would save the member of slot %s, as %s, to %s", would.Slot,
		would.Cluster, would.Store)))
}

// remoteFlags are the flags for reaching any etcd. Their names are etcdctl's.
type remoteFlags struct {
	endpoints []string
	secure    clientv3.SecureConfig
	user      string
	password  string
	fs        *pflag.FlagSet // all flags but --endpoints
}

// add adds the flags. Unlike etcdctl, --endpoints has no environment variable: with ETCDCTL_ENDPOINTS set for etcdctl,
// the command must still save this node.
func (r *remoteFlags) add(fs *pflag.FlagSet) {
	fs.StringSliceVar(&r.endpoints, "endpoints", nil,
		"save the etcd at these `URLs`, of one member, instead of this node's")
	r.fs = pflag.NewFlagSet("etcdctl", pflag.ContinueOnError)
	r.fs.StringVar(&r.secure.Cacert, "cacert", "",
		"with --endpoints: `file` of the CAs that sign the servers' certificates")
	r.fs.StringVar(&r.secure.Cert, "cert", "", "with --endpoints: `file` of the client's certificate")
	r.fs.StringVar(&r.secure.Key, "key", "", "with --endpoints: `file` of its key")
	r.fs.BoolVar(&r.secure.InsecureSkipVerify, "insecure-skip-tls-verify", false,
		"with --endpoints: believe any certificate, for tests only")
	r.fs.StringVar(&r.user, "user", "", "with --endpoints: `name[:password]`")
	r.fs.StringVar(&r.password, "password", "", "with --endpoints: `password` of the user")
	fs.AddFlagSet(r.fs)
}

// unused returns an error if a flag was given that needs --endpoints.
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
		return clientv3.Config{}, errors.New("--password: must be set with --user (ETCDCTL_PASSWORD in the environment " +
			"keeps it out of `ps`)")
	}
	r.secure.InsecureTransport = true // as in etcdctl, the scheme of each URL decides
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

// choose returns what is to be saved. With --endpoints, it opens the store of the configuration and chooses a member of
// that etcd. An empty one is an error: `--endpoints $UNSET` must not save this node instead.
func (r *remoteFlags) choose(c *cobra.Command, l *config.Loaded) (saver, error) {
	if !c.Flags().Changed("endpoints") {
		if err := r.unused(c.Flags()); err != nil {
			return nil, usage(err)
		}
		client, err := control.Open(l.Config.Control)
		return backups.Node{Client: client}, err
	}
	if l.Origin["cluster.name"] == config.OriginDefault {
		return nil, usage(errors.New("say by what name the store is to know this cluster: --cluster.name NAME"))
	}
	b, err := backups.Open(c.Context(), l.Config, operator(), c.ErrOrStderr())
	if err != nil {
		return nil, err
	}
	client, err := r.config()
	if err != nil {
		return nil, err
	}
	return b.Remote(c.Context(), client, buildVersion())
}
