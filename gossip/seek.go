package gossip

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"

	"go.uber.org/zap"
)

// ringInterval is how often the keys are looked at where they lie.
const ringInterval = 2 * time.Second

// UseRing has the gossip encrypted with the keys of r; without it, with those of Config.KeyFile. Call it before Run.
func (m *Mesh) UseRing(r *Ring) { m.ring = r }

// Ring returns the ring that is used, nil where the gossip is in the clear.
func (m *Mesh) Ring() *Ring { return m.ring }

// awaitKeys returns when there is a key: there must be no moment in which we listen without. Derived keys are waited
// for whatever is wrong with them: their authority may not be known yet, or their file be damaged, and a member serves
// meanwhile. An observer has nothing else to do: it waits for the authority alone.
func (m *Mesh) awaitKeys(ctx context.Context) error {
	begin := time.Now()
	for {
		_, err := m.ring.Refresh()
		if err == nil || !errors.Is(err, errNoKey) && (!m.ring.derived() || m.self.Observer) {
			return err
		}
		notice := m.notices.show // at each first start it takes a moment: no news for the log
		if time.Since(begin) >= ringInterval {
			notice = m.notices.warn
		}
		notice("ring", err.Error())
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(ringInterval / 10):
		}
	}
}

// followKeys takes over what changes where the keys lie, until ctx ends.
func (m *Mesh) followKeys(ctx context.Context) {
	tick := time.NewTicker(ringInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		changed, err := m.ring.Refresh()
		if err == nil && changed {
			m.lg.Info("gossip keys changed", zap.String("primary", m.ring.Keys().Primary().Fingerprint),
				zap.Int("keys", len(m.ring.Keys().Keys)))
			m.notices.settleAll("key-mismatch/")
			m.notices.settleAll(reasonKey + "/")
		}
		if problem := m.ring.Problem(); problem != "" {
			m.notices.warn("ring", problem)
		} else {
			m.notices.settle("ring")
		}
	}
}

// keyMismatch says why a node that was reached does not read what we say, and moves this one to the cluster's key if
// that is a later one of ours.
func (m *Mesh) keyMismatch(ctx context.Context, at netip.AddrPort) {
	if m.ring == nil {
		return
	}
	mine := m.ring.Keys()
	if candidates := m.ring.ahead(); len(candidates) > 0 {
		found, err := m.primaryAt(ctx, at, candidates)
		if err == nil {
			if err = m.ring.moveTo(found); err == nil {
				m.notices.settleAll("key-mismatch/")
				m.notices.settleAll(reasonKey + "/")
				m.lg.Info("moved to the gossip key of the others", zap.Stringer("address", at),
					zap.String("key", found.Fingerprint), zap.Int("serial", found.Serial))
				return
			}
		}
		m.lg.Debug("gossip key of the others not found", zap.Stringer("address", at), zap.Error(err))
	}
	cure := "put the gossip.key-file of a node that `holdfast gossip keys` shows in their company on the other ones"
	if mine.Origin == KeysDerived {
		cure = fmt.Sprintf("no key of the next %d serials fits either: look whether both have the same peers' authority, and key-file set on neither", maxAhead)
	}
	m.notices.warn("key-mismatch/"+at.String(),
		fmt.Sprintf("the node at %s uses another gossip key, or has none of ours (this node encrypts with %s): %s", at,
			mine.Primary().Fingerprint, cure))
}

// primaryAt finds out with which of the candidates a node encrypts. To what it cannot decrypt a memberlist answers, on
// that very stream, with an error that is encrypted.
func (m *Mesh) primaryAt(ctx context.Context, at netip.AddrPort, candidates []fullKey) (fullKey, error) {
	conn, err := (&net.Dialer{Timeout: streamTimeout}).DialContext(ctx, "tcp", at.String())
	if err != nil {
		return fullKey{}, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if err := conn.SetDeadline(time.Now().Add(streamTimeout)); err != nil {
		return fullKey{}, err
	}
	msg := append([]byte{typeLabel, byte(len(m.label))}, m.label...)
	msg = append(msg, typeEncrypt, 0, 0, 0, 64, unpadded)
	noise := make([]byte, 63)
	_, _ = rand.Read(noise) // it never fails
	if _, err := conn.Write(append(msg, noise...)); err != nil {
		return fullKey{}, err
	}
	head := make([]byte, 5)
	if _, err := io.ReadFull(conn, head); err != nil {
		return fullKey{}, err
	}
	size := binary.BigEndian.Uint32(head[1:])
	if head[0] != typeEncrypt || size < 1+12+16 || size > 4<<10 {
		return fullKey{}, errors.New("it answers in another way than memberlist")
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(conn, body); err != nil {
		return fullKey{}, err
	}
	for _, k := range candidates {
		if opens(k.secret, body, append(head, m.label...)) {
			return k, nil
		}
	}
	return fullKey{}, errors.New("it encrypts with none of the keys that are tried")
}

// opens reports whether a message of memberlist was encrypted with a key (security.go there).
func opens(key, msg, authenticated []byte) bool {
	block, err := aes.NewCipher(key)
	if err != nil {
		return false
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		return false
	}
	_, err = gcm.Open(nil, msg[1:13], msg[13:], authenticated)
	return err == nil
}
