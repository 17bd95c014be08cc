package config

import (
	"errors"
	"net"
	"net/netip"
)

// addressAuto as node.address means the address from which this machine reaches other machines. With it, machines made
// from one image can share one configuration.
const addressAuto = "auto"

// nowhere are addresses that no machine has (RFC 5737, RFC 3849), so only the default route leads to them.
var nowhere = []struct{ network, address string }{
	{"udp4", "203.0.113.1:9"},
	{"udp6", "[2001:db8::1]:9"},
}

// resolveAddress replaces auto by this machine's address.
func (l *Loaded) resolveAddress() error {
	if l.Config.Node.Address != addressAuto {
		return nil
	}
	ip, err := OwnAddress()
	if err != nil {
		return l.wrong("node.address", "%v", err)
	}
	l.Config.Node.Address = ip.String()
	l.Origin["node.address"] += " (auto: " + ip.String() + ")"
	return nil
}

// OwnAddress returns the address for node.address auto: the preferred source address of the default route, IPv4 before
// IPv6. Without a default route, it returns the machine's address if there is only one.
func OwnAddress() (netip.Addr, error) {
	for _, to := range nowhere {
		// The kernel picks route and source when a UDP socket is connected; nothing is sent.
		conn, err := net.Dial(to.network, to.address)
		if err != nil {
			continue // there is no route, or no such protocol
		}
		local := conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
		conn.Close()
		if local.IsGlobalUnicast() {
			return local, nil
		}
	}
	if all := globalAddresses(); len(all) == 1 {
		return all[0], nil
	}
	return netip.Addr{}, errors.New("auto found no default route: set an IP address")
}

// globalAddresses returns the addresses of the interfaces that are up, without loopback and link-local ones.
func globalAddresses() []netip.Addr {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil
	}
	var all []netip.Addr
	for _, i := range interfaces {
		prefixes, err := i.Addrs()
		if err != nil || i.Flags&net.FlagUp == 0 {
			continue
		}
		for _, p := range prefixes {
			if prefix, err := netip.ParsePrefix(p.String()); err == nil && prefix.Addr().IsGlobalUnicast() {
				all = append(all, prefix.Addr().Unmap())
			}
		}
	}
	return all
}
