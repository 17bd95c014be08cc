package gossip

import (
	"context"
	"sync"

	"github.com/hashicorp/memberlist"
	"go.uber.org/zap"
)

// disseminate sends our newest state to anyone who lacks it, until ctx ends. One send at most is under way to a peer,
// so a slow peer delays nobody else, and what was published meanwhile goes out as one. A failed send is not repeated:
// push/pull brings the state within seconds.
func (m *Mesh) disseminate(ctx context.Context, list *memberlist.Memberlist) {
	var sends sync.WaitGroup
	defer sends.Wait()
	for {
		m.sign()
		word, deliveries := m.due()
		for _, d := range deliveries {
			sends.Go(func() {
				if err := list.SendReliable(d.to, word); err != nil {
					m.lg.Debug("state not sent", zap.String("process", d.to.Name), zap.Error(err))
				}
				m.sent(d)
			})
		}
		select {
		case <-ctx.Done():
			return
		case <-m.behind:
		}
	}
}
