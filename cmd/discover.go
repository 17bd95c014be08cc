package cmd

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"holdfast/cmd/certificates"
	"holdfast/cmd/config"
	"holdfast/cmd/observer"
	"holdfast/gossip/discover"
)

// checkDiscover says what is wrong with the flags of `holdfast discover`.
func checkDiscover(o observer.Options) error {
	var errs []error
	if o.Hosts == "" && o.Endpoints == "" && o.DNS == "" && len(o.Clients) == 0 {
		errs = append(errs, errors.New("nothing to keep up to date: give --hosts, --endpoints, --dns or --client"))
	}
	for _, f := range o.Clients {
		if !isClientName(f.Name) {
			errs = append(errs, fmt.Errorf("--client: must be DIR/NAME, as /etc/etcd/kube for kube.crt and kube.key there, "+
				"got %q", f.Certificate))
		}
	}
	if o.Once && len(o.Clients) > 0 {
		errs = append(errs, errors.New("--once ends when the files are written: it cannot keep --client fresh (`holdfast "+
			"tls client NAME --to DIR --renew` looks once)"))
	}
	if o.Format != discover.Lines && o.Format != discover.JSON {
		errs = append(errs, fmt.Errorf("--format: must be %s or %s, got %q", discover.Lines, discover.JSON, o.Format))
	}
	if _, err := netip.ParseAddrPort(o.DNS); o.DNS != "" && err != nil {
		errs = append(errs, fmt.Errorf("--dns: must be an IP address and port, got %q", o.DNS))
	}
	if o.Once && o.DNS != "" {
		errs = append(errs, errors.New("--once ends when the files are written: it cannot serve --dns"))
	}
	if o.Wait <= 0 {
		errs = append(errs, fmt.Errorf("--wait: must be above 0s, got %s", o.Wait))
	}
	return errors.Join(errs...)
}

func newDiscoverCommand() *cobra.Command {
	var o observer.Options
	var clients []string
	c := &cobra.Command{
		Use:   "discover",
		Short: "Keep this machine's list of the members, and its client certificates, up to date",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			for _, path := range clients {
				o.Clients = append(o.Clients, certificates.FilesOf(filepath.Split(path)))
			}
			err := checkDiscover(o)
			if err == nil && o.Endpoints == "" {
				err = idle(c, "does nothing without --endpoints", "format")
			}
			if err == nil && !o.Once {
				err = idle(c, "does nothing without --once", "wait")
			}
			if err != nil {
				return usage(err)
			}
			load := func() (*config.Loaded, error) { return config.Load("", c.Flags(), os.Environ()) }
			loaded, err := load()
			if err != nil {
				return err
			}
			return observer.Run(c.Context(), buildVersion(), loaded, load, o)
		},
	}
	config.AddFlags(c.Flags())
	c.Flags().StringVar(&o.Hosts, "hosts", "", "keep a block with the members in this `file`, such as /etc/hosts")
	c.Flags().StringVar(&o.Endpoints, "endpoints", "", "keep the members' endpoints in this `file`")
	c.Flags().StringVar(&o.Format, "format", discover.Lines, "format of the endpoints: `lines` of client URLs, or json")
	c.Flags().StringVar(&o.DNS, "dns", "", "answer DNS over UDP and TCP on this `address:port`")
	c.Flags().StringArrayVar(&clients, "client", nil, "keep the client's certificate `DIR/NAME`.crt fresh, beside "+
		"NAME.key and ca.crt")
	c.Flags().BoolVar(&o.Once, "once", false, "write once every member has been heard of, then exit")
	c.Flags().DurationVar(&o.Wait, "wait", 30*time.Second, "with --once: how long to wait for all members")
	return c
}
