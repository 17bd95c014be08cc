package config

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
)

// Control is the `control:` section.
type Control struct {
	Socket    string   `mapstructure:"socket"`    // path of the unix socket for commands
	Listen    string   `mapstructure:"listen"`    // IP address and port for other machines; empty: none
	Readers   []string `mapstructure:"readers"`   // common names of the certificates that may only look
	Operators []string `mapstructure:"operators"` // common names of the certificates that may make changes
	Remote    Remote   `mapstructure:"remote"`
}

// Remote names a node on another machine for commands to talk to, and the certificate that they show.
type Remote struct {
	Address  string `mapstructure:"address"`   // host:port of its control.listen; empty: this machine's socket
	CertFile string `mapstructure:"cert-file"` // PEM, signed by the clients' authority
	KeyFile  string `mapstructure:"key-file"`
	CAFile   string `mapstructure:"ca-file"` // PEM, to verify the node's certificate
}

// maxSocketPath is the size of sun_path in Linux' unix(7), 108 bytes, without the final NUL. With a longer path, bind
// only fails with "invalid argument".
const maxSocketPath = 107

// Validate reports every value out of range. It reads no file.
func (c Control) Validate(wrong func(key, format string, args ...any)) {
	if n := len(c.Socket); n > maxSocketPath {
		wrong("control.socket", "must be a path of at most %d bytes, got %d: %q", maxSocketPath, n, c.Socket)
	}
	if at, err := netip.ParseAddrPort(c.Listen); c.Listen != "" &&
		(err != nil || at.Port() == 0 || at.Addr().Zone() != "") {
		wrong("control.listen", "must be host:port with an IP address and port 1–65535, got %q", c.Listen)
	}
	for _, names := range []struct {
		Key  string
		list []string
	}{{"control.readers", c.Readers}, {"control.operators", c.Operators}} {
		if slices.Contains(names.list, "") {
			wrong(names.Key, `must be common names of certificates, got ""`)
		}
	}
	r := c.Remote
	if _, _, err := net.SplitHostPort(r.Address); r.Address != "" && err != nil {
		wrong("control.remote.address", "must be host:port, got %q", r.Address)
	}
	for _, file := range []struct{ Key, path string }{
		{"control.remote.cert-file", r.CertFile}, {"control.remote.key-file", r.KeyFile},
		{"control.remote.ca-file", r.CAFile},
	} {
		if (r.Address == "") != (file.path == "") {
			wrong(file.Key, "must be set together with control.remote.address, got %q and %q", file.path, r.Address)
		}
	}
}

// controlContradictions finds a control.listen that would admit nobody, or everybody.
func controlContradictions(c Config) []contradiction {
	var found []contradiction
	k := c.Control
	if k.Listen != "" && (c.Etcd.CertFile == "" || c.Etcd.TrustedCAFile == "") {
		found = append(found, contradiction{[]string{"control.listen", "etcd.cert-file", "etcd.trusted-ca-file"},
			fmt.Sprintf("must be empty without TLS and an authority that signs clients' certificates (tls.mode, or "+
				"etcd.cert-file and etcd.trusted-ca-file), got %q", k.Listen)})
	}
	if k.Listen != "" && len(k.Readers)+len(k.Operators) == 0 && !c.TLS.Issues() { // else clients renew their certificates
		found = append(found, contradiction{[]string{"control.listen", "control.readers", "control.operators"},
			fmt.Sprintf("nobody may use it: name certificates in control.readers or control.operators, got %q", k.Listen)})
	}
	if k.Listen == "" && len(k.Readers)+len(k.Operators) > 0 {
		found = append(found, contradiction{[]string{"control.listen", "control.readers", "control.operators"},
			fmt.Sprintf("must be set for control.readers and control.operators to mean anything, got %q", k.Listen)})
	}
	return found
}
