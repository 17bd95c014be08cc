package config

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"holdfast/embedded/auth"
	"holdfast/embedded/pki"
	"holdfast/embedded/settings"
	"holdfast/snapshot"
	"holdfast/snapshot/s3"
)

// doubts returns warnings about values that are valid, but seldom intended. Each begins with its key.
func (c Config) doubts() (all []string) {
	doubt := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if c.Cluster.TagSlots {
		doubt("cluster.slots: not set, so a node takes the slots from the tags %s of the volumes when it starts, and only "+
			"then sees whether they agree", c.Volume.EBS.For(c.Cluster.Name).SlotTag)
	} else if n := len(c.Cluster.Slots); n%2 == 0 {
		doubt("cluster.slots: %d members survive the loss of %d, no more than %d members do", n, n/2-1, n-1)
	}
	c.gossipDoubts(doubt)
	c.peerURLDoubts(doubt)
	c.storeNameDoubts(doubt)
	c.tlsDoubts(doubt)
	c.backupDoubts(doubt)
	if u := c.Upkeep; u.DefragFreePercent > 0 && u.DefragFreeBytes < 16<<20 {
		doubt("upkeep.defrag-free-bytes: %d, members are kept from their clients for next to nothing", u.DefragFreeBytes)
	}
	c.authDoubts(doubt)
	return all
}

func (c Config) gossipDoubts(doubt func(format string, args ...any)) {
	host, _, err := net.SplitHostPort(c.Gossip.Listen)
	switch {
	case c.GossipTLS() && c.Gossip.KeyFile != "":
		doubt("gossip.key-file: not used with tls.mode %s, where nodes have certificates of their own: remove it", c.TLS.Mode)
	case !c.GossipTLS() && c.Gossip.KeyFile == "" && err == nil && !isLoopback(host):
		doubt("gossip.key-file: not set, anyone who reaches %s can join the gossip", c.Gossip.Listen)
	}
}

// peerURLDoubts warns if etcd.peer-url has a port on which etcd does not listen.
func (c Config) peerURLDoubts(doubt func(format string, args ...any)) {
	u, err := url.Parse(strings.Replace(c.Etcd.PeerURL, SlotMark, "x", 1))
	if err != nil || slices.ContainsFunc(c.Etcd.ListenPeerURLs, func(text string) bool {
		l, err := url.Parse(text)
		return err == nil && l.Port() == u.Port()
	}) {
		return
	}
	doubt("etcd.peer-url: %s, but etcd listens for members at %s: something must forward the one port to the other",
		c.Etcd.PeerURL, strings.Join(c.Etcd.ListenPeerURLs, ", "))
}

// storeNameDoubts warns if a node takes the name of its store for that of a member.
func (c Config) storeNameDoubts(doubt func(format string, args ...any)) {
	u, err := url.Parse(c.Snapshot.S3.Endpoint)
	bucket, _, notBucket := s3.ParseURL(c.Snapshot.Store)
	if err != nil || notBucket != nil {
		return
	}
	name := u.Hostname()
	if !c.Snapshot.S3.PathStyle {
		name = bucket + "." + name
	}
	name = strings.ToLower(name)
	domain, all := strings.CutPrefix(settings.PeerHost(c.Etcd.PeerURL), SlotMark+".")
	_, rest, _ := strings.Cut(name, ".")
	switch {
	case strings.HasSuffix("."+name, "."+c.Zone()):
		doubt("cluster.domain: %s, of snapshot.s3.endpoint, lies in %s, whose names a node answers itself, so it does not "+
			"ask DNS for it: found the cluster with another domain", name, c.Zone())
	case all && strings.EqualFold(rest, domain):
		doubt("etcd.peer-url: %s, of snapshot.s3.endpoint, has the form of a member's name, so a node does not ask DNS for "+
			"it: give it a line in /etc/hosts, or found the cluster with narrower names, such as etcd-{slot}.%s", name, domain)
	}
}

func (c Config) tlsDoubts(doubt func(format string, args ...any)) {
	at, exposed := exposedAddress(c)
	switch {
	case c.Insecure():
		doubt("tls.insecure: true, and so anyone who reaches %s can read and write everything", at)
	case exposed && c.Etcd.TrustedCAFile == "":
		doubt("etcd.trusted-ca-file: not set, anyone who reaches %s can read and write, unless etcd's own authentication is "+
			"on", at)
	case exposed && c.TLS.Insecure && (c.TLS.Mode != pki.ModeAuto || !c.storeInClear()):
		doubt("tls.insecure: true means nothing here with tls.mode %s", c.TLS.Mode)
	}
}

// backupDoubts warns about the sections snapshot and restore.
func (c Config) backupDoubts(doubt func(format string, args ...any)) {
	s, r := c.Snapshot, c.Restore
	if s.Every == 0 && s.Cron == "" {
		doubt("snapshot.every: 0s, no backup is made")
	}
	if s.Drill == 0 {
		doubt("snapshot.drill: 0s, it is never tried whether a backup can be restored")
	}
	if len(s.Recipients) > 0 && s.IdentityFile == "" {
		doubt("snapshot.identity-file: not set, so this node makes no drills, and cannot restore or, once saved, fully " +
			"verify its encrypted backups: drill them where the key is")
	}
	if s.IdentityFile != "" {
		if _, err := snapshot.ReadIdentities(s.IdentityFile); err != nil {
			doubt("%v", err)
		}
	}
	if c.storeInClear() && len(s.Recipients) == 0 {
		doubt("snapshot.s3.endpoint: %s is not https, so anyone on the way to it reads every backup: take https, or set "+
			"snapshot.recipients", s.S3.Endpoint)
	}
	if s.S3 != s3.Default() && !s.InBucket() {
		doubt("snapshot.s3: set, but snapshot.store is the directory %s", s.Store)
	}
	if r.RevisionBump == 0 {
		doubt("restore.revision-bump: 0, after a restore the watchers of Kubernetes do not notice that time went back")
	}
	if r.ReclaimAfter > 0 && r.ReclaimAfter < time.Hour {
		doubt("restore.reclaim-after: %s, what a restore has set aside is deleted almost at once",
			FormatDuration(r.ReclaimAfter))
	}
}

// authDoubts warns about auth.file. A wrong file is no error, because the member can serve without it.
func (c Config) authDoubts(doubt func(format string, args ...any)) {
	if c.Auth.File == "" {
		return
	}
	w, err := auth.Read(c.Auth.File)
	if err != nil {
		doubt("auth.file: etcd's users and roles will be left alone: %v", err)
		return
	}
	w.ReadPasswords()
	for _, u := range w.Users {
		switch {
		case u.Unreadable != "":
			doubt("auth.file: the password of user %s: %s", u.Name, u.Unreadable)
		case u.NoPassword && !c.Etcd.ClientCertAuth: // etcd checks certificates without it, but takes no user from them
			doubt("auth.file: user %s has no password, and etcd.client-cert-auth is false: nobody can be that user", u.Name)
		}
	}
}
