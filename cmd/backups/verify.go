package backups

import (
	"context"
	"errors"
	"fmt"
	"time"

	"holdfast/embedded/health"
	"holdfast/snapshot"
)

// recordTime is how long recording a proof may take. The proof itself took longer.
const recordTime = 30 * time.Second

// Verdict is what a verify says of one backup.
type Verdict struct {
	Name string `json:"name"`
	Good bool   `json:"good"`
	// Unknown says that it could not be checked, as Error tells: nothing speaks against the backup.
	Unknown bool `json:"unknown,omitempty"`
	// DigestOnly says that the backup is encrypted and that no identity here decrypts it.
	DigestOnly bool           `json:"digestOnly,omitempty"`
	Error      string         `json:"error,omitempty"`
	Meta       *snapshot.Meta `json:"meta,omitempty"`
}

// String is the verdict for people.
func (v Verdict) String() string {
	switch {
	case v.Unknown:
		return "NOT CHECKED: " + v.Error
	case !v.Good:
		return "BAD: " + v.Error
	case v.DigestOnly:
		return fmt.Sprintf("good as far as its digest goes: %s as they were stored; it is encrypted, and no key in "+
			"snapshot.identity-file opens it", health.Bytes(v.Meta.Stored.Size))
	}
	return fmt.Sprintf("good: revision %d, %d records, %s", v.Meta.Content.Revision, v.Meta.Content.Keys,
		health.Bytes(v.Meta.Content.Size))
}

// Verify judges backups one after the other, all of the cluster if none is named, and tells of each. Where it has
// judged, the verdicts are not nil, and the error says how many are bad or unknown.
func (b *Backups) Verify(ctx context.Context, names []string, tell func(Verdict)) (verdicts []Verdict, err error) {
	listed := len(names) == 0 // one that is gone was removed meanwhile, which is nothing to tell
	if listed {
		if names, err = b.verifiable(ctx); err != nil {
			return nil, err
		}
	}
	if b.optErr != nil {
		return nil, b.optErr
	}
	verdicts = []Verdict{}
	for _, name := range names {
		if name, err = b.resolve(ctx, name); err != nil {
			return nil, err
		}
		v, err := b.verify(ctx, name)
		if errors.Is(err, snapshot.ErrNotFound) {
			if listed {
				continue
			}
			v, err = Verdict{Name: name, Unknown: true, Error: noSuchBackup(name).Error()}, nil
		}
		if err != nil {
			return nil, err
		}
		verdicts = append(verdicts, v)
		tell(v)
	}
	return verdicts, b.judged(ctx, verdicts, len(names))
}

// verifiable names all backups of the cluster, but for what may be being saved: it is no backup yet, and nothing is
// wrong.
func (b *Backups) verifiable(ctx context.Context) (names []string, err error) {
	all, _, err := b.list(ctx)
	if err != nil {
		return nil, err
	}
	for _, a := range all {
		if !a.Foreign && !a.Unfinished {
			names = append(names, a.Name)
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no backups of cluster %s in %s: nothing was verified", b.Config.Cluster.Name,
			b.Config.Snapshot.Store)
	}
	return names, nil
}

// judged is the error of verdicts on so many backups, nil if all are good.
func (b *Backups) judged(ctx context.Context, verdicts []Verdict, of int) error {
	unknown, bad := 0, []string{}
	for _, v := range verdicts {
		switch {
		case v.Unknown:
			unknown++
		case !v.Good:
			bad = append(bad, v.Name)
		}
	}
	var errs []error
	if len(bad) > 0 {
		errs = append(errs, fmt.Errorf("%d of %d backups in %s are bad: restore from another%s, and delete these when you "+
			"have looked at them",
			len(bad), of, b.Config.Snapshot.Store, b.Instead(ctx, bad...)))
	}
	if unknown > 0 {
		errs = append(errs, fmt.Errorf("%d of %d backups in %s could not be checked, which says nothing against them",
			unknown, of, b.Config.Snapshot.Store))
	}
	return errors.Join(errs...)
}

// verify judges one backup and records the proof. The error is that of a caller that gave up, or ErrNotFound.
func (b *Backups) verify(ctx context.Context, name string) (Verdict, error) {
	var found snapshot.Verification
	err := b.Progressing(func(opt snapshot.Options) (err error) {
		found, err = snapshot.Verify(ctx, b.Store, name, opt)
		return err
	})
	if errors.Is(err, context.Canceled) || errors.Is(err, snapshot.ErrNotFound) {
		return Verdict{}, err
	}
	if p, ok := snapshot.VerifyProof(found, err, b.opt); ok {
		bound, cancel := context.WithTimeout(ctx, recordTime)
		defer cancel()
		b.unrecorded(snapshot.Record(bound, b.Store, name, p))
	}
	if err != nil {
		return Verdict{Name: name, Unknown: !snapshot.Damaged(err), Error: err.Error()}, nil
	}
	return Verdict{Name: name, Good: true, DigestOnly: !found.Full, Meta: &found.Meta}, nil
}

// unrecorded says that a proof could not be stored beside the backup, which changes nothing about what was found. Of
// one that was deleted meanwhile there is nothing to tell.
func (b *Backups) unrecorded(err error) {
	if err != nil && !errors.Is(err, snapshot.ErrNotFound) {
		fmt.Fprintf(b.said, "the result is known here only: %v\n", err)
	}
}
