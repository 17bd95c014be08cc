package config

import (
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
