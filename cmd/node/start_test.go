package node

import (
	"context"
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"holdfast/embedded/coordinator"
	"holdfast/embedded/pki"
	"holdfast/embedded/plan"
)

// expired is a source of authorities that has none.
type expired struct{}

func (expired) Authorities(context.Context) (pki.Authorities, error) {
	return pki.Authorities{}, errors.New("the authority has expired")
}

// Where certificates are missing, nothing is wrong with the volume.
func TestStartWithoutCertificates(t *testing.T) {
	cfg := pki.Default()
	cfg.Mode, cfg.Dir = pki.ModeCA, t.TempDir()
	k, err := pki.New(cfg, pki.Identity{Node: "n1", Zone: "main.test"}, expired{}, zap.NewNop(), prometheus.NewRegistry())
	must(t, err)
	err = etcd{certificates: k}.Start(t.Context(), plan.Spec{Slot: "a"})
	if _, outside := errors.AsType[coordinator.Outside](err); !outside {
		t.Errorf("got %v", err)
	}
}
