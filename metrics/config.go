package metrics

import (
	"net"
	"strconv"
)

// off is the value of Config.Listen that disables the server.
const off = "off"

// Config is the `metrics:` section.
type Config struct {
	// Listen is the host:port of the HTTP server. The host is an IP address, "localhost", or empty for all addresses.
	// "off" disables the server. If Listen is empty, cmd fills it from node.address.
	Listen string `mapstructure:"listen"`
	// Pprof is the host:port, with a loopback address, for Go's profiles. Empty serves none.
	Pprof string `mapstructure:"pprof"`
}

// Default returns the default configuration.
func Default() Config { return Config{} }

// Validate reports a Listen that cannot be bound, and a Pprof that other machines could reach.
func (c Config) Validate(wrong func(key, format string, args ...any)) {
	if !bindable(c.Listen) {
		wrong("metrics.listen", "must be host:port with an IP address and port 0–65535, or %q, got %q", off, c.Listen)
	}
	if !private(c.Pprof) {
		wrong("metrics.pprof", mustBePrivate, c.Pprof)
	}
}

func bindable(listen string) bool {
	if listen == "" || listen == off {
		return true
	}
	host, port, err := net.SplitHostPort(listen)
	if err != nil || host != "" && host != "localhost" && net.ParseIP(host) == nil {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}
