package cmd

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"holdfast/cmd/certificates"
	"holdfast/cmd/config"
	"holdfast/cmd/show"
)

func newTLSClientCommand() *cobra.Command {
	i, renew := issuing{kind: "directory"}, false
	c := &cobra.Command{
		Use:   "client NAME --to DIR",
		Short: "Issue a client's certificate (tls.mode ca and auto)",
		Long: "Issue a client's certificate (tls.mode ca and auto): NAME.crt, NAME.key and ca.crt, which the client needs to know the\n" +
			"servers. It lets its holder read and write everything.\n\n" +
			"NAME is the certificate's common name. Where etcd's own authentication is on, it is the user: what a certificate for\n" +
			"root may do is everything, and one for a user that etcd does not know may do nothing.\n\n" +
			"It is not renewed by itself. Its end is kept in the backup store, and the nodes tell of it from 30 days before,\n" +
			"until there is a later one of NAME. --renew, from a timer, renews NAME.crt where it is: once two thirds of its life are\n" +
			"over, or its authority was replaced. NAME.key stays as it is, so that the pair fits at every moment.\n\n" +
			"The key of the clients' authority must be here: run it on a node, or with the node's configuration.",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			name := args[0]
			l, err := i.load(c, name)
			if err != nil {
				return err
			}
			p := clientFiles{name, filepath.Join(i.to, name+".crt"), filepath.Join(i.to, name+".key"), filepath.Join(i.to, "ca.crt")}
			var has *tls.Certificate
			if renew {
				if has, err = p.read(); err != nil {
					return err
				}
			}
			issued, err := certificates.Issue(c.Context(), l.Config, name, has, i.life)
			if err != nil {
				return err
			}
			written := false
			if renew {
				written, err = p.renew(c.OutOrStdout(), issued, has, i.dryRun)
			} else {
				written, err = p.write(c.OutOrStdout(), issued, i.dryRun)
			}
			if !written || err != nil {
				return err
			}
			issued.Track(c.Context(), l.Config, name, c.ErrOrStderr())
			return nil
		},
	}
	i.flags(c, "the `directory` to write to")
	c.Flags().BoolVar(&renew, "renew", false, "renew the certificate that is there, if it is time")
	return c
}

// issuing is what the commands that issue a certificate by hand have in common.
type issuing struct {
	kind   string // what --to is: a directory or a file
	to     string
	life   time.Duration
	dryRun bool
}

func (i *issuing) flags(c *cobra.Command, to string) {
	i.life = 365 * 24 * time.Hour
	addClientFlags(c.Flags(), shownForStores...)
	c.Flags().StringVar(&i.to, "to", "", to)
	c.Flags().Var(&durationFlag{&i.life}, "life", "how long it is valid; never longer than the authority")
	addDryRun(c.Flags(), &i.dryRun)
}

// load checks what is asked for, and reads the configuration.
func (i *issuing) load(c *cobra.Command, name string) (*config.Loaded, error) {
	if !clientName.MatchString(name) {
		return nil, fmt.Errorf("NAME: must be 1–64 of letters, digits and . _ @ : -, beginning with one of the first two, got %q", name)
	}
	if i.to == "" {
		return nil, fmt.Errorf("--to: must be a %s, got none", i.kind)
	}
	if err := atLeast("life", time.Minute, i.life); err != nil {
		return nil, err
	}
	return config.Load("", c.Flags(), os.Environ())
}

// clientFiles are where a client's certificate, its key and the servers' authorities are.
type clientFiles struct{ name, certificate, key, authorities string }

// write writes all of them, none of which may be there but the authorities, of which the newest are right.
func (p clientFiles) write(out io.Writer, i certificates.Issued, dryRun bool) (bool, error) {
	files := []freshFile{{p.certificate, i.Certificate, 0o644}, {p.key, i.Key, 0o600}}
	if err := absent(files); err != nil {
		return false, err
	}
	if dryRun {
		return false, show.NothingChanged(out, fmt.Sprintf("would write %s, %s and ca.crt", p.certificate, p.key))
	}
	if err := writeFresh(filepath.Dir(p.certificate), files); err != nil {
		return false, err
	}
	if err := certificates.Public.Write(p.authorities, i.CA); err != nil {
		return false, err
	}
	_, err := fmt.Fprintf(out, "wrote %s, %s and %s\n", p.certificate, p.key, p.authorities)
	return true, err
}

// renew replaces the authorities, and the certificate if it is time for that. The authorities come first: a server may
// have a new one already.
func (p clientFiles) renew(out io.Writer, i certificates.Issued, has *tls.Certificate, dryRun bool) (bool, error) {
	due := i.Due(has.Leaf, time.Now())
	good := fmt.Sprintf("%s is good until %s", p.certificate, has.Leaf.NotAfter.UTC().Format(time.RFC3339))
	if dryRun && due {
		return false, show.NothingChanged(out, fmt.Sprintf("%s: it would be renewed", good))
	}
	if dryRun {
		return false, show.NothingChanged(out, good+": it would not be renewed yet")
	}
	if err := certificates.Public.Write(p.authorities, i.CA); err != nil {
		return false, err
	}
	if !due {
		_, err := fmt.Fprintf(out, "%s: not renewed yet\n", good)
		return false, err
	}
	if err := certificates.Public.Write(p.certificate, i.Certificate); err != nil {
		return false, err
	}
	_, err := fmt.Fprintf(out, "renewed %s; its key is the same\n", p.certificate)
	return true, err
}

// read reads the certificate and the key that are there.
func (p clientFiles) read() (*tls.Certificate, error) {
	has, err := tls.LoadX509KeyPair(p.certificate, p.key)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("--renew: %w: leave it out to issue the first certificate of %s", err, p.name)
	case err != nil:
		return nil, fmt.Errorf("--renew: read %s and %s: %w", p.certificate, p.key, err)
	case has.Leaf.Subject.CommonName != p.name:
		return nil, fmt.Errorf("--renew: %s is a certificate of %q, not of %s", p.certificate, has.Leaf.Subject.CommonName,
			p.name)
	}
	return &has, nil
}
