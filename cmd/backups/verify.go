package backups

import (
	"context"
	"errors"
	"fmt"
	"time"

	"holdfast/cmd/child"
	"holdfast/embedded/generations"
	"holdfast/embedded/health"
	"holdfast/snapshot"
)

// recordTime limits how long recording a proof may take.
const recordTime = 30 * time.Second

// Verdict is the result of verifying one backup.
type Verdict struct {
	Name string `json:"name"`
	Good bool   `json:"good"`
	// Unknown means that the backup could not be checked, for the reason in Error. It may be good.
	Unknown bool `json:"unknown,omitempty"`
	// DigestOnly means that only the digest was checked: the backup is encrypted, and no identity here decrypts it.
	DigestOnly bool           `json:"digestOnly,omitempty"`
	Error      string         `json:"error,omitempty"`
	Meta       *snapshot.Meta `json:"meta,omitempty"`
}

// String returns the verdict as text for people.
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

// Verify verifies the named backups, or all of the cluster if names is empty, and calls tell for each. If it got as far
// as verifying, the verdicts are not nil, and the error says how many backups are bad or unknown.
func (b *Backups) Verify(ctx context.Context, names []string, tell func(Verdict)) (verdicts []Verdict, err error) {
	listed := len(names) == 0 // then a backup that is gone was removed meanwhile, and is skipped
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

// verifiable returns the names of the cluster's backups. It leaves out unfinished ones, which may still be being saved.
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

// judged returns an error if any of the verdicts is not good. of is the number of backups that were to be verified.
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

// verify verifies one backup and records the proof. The error is context.Canceled or [snapshot.ErrNotFound].
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

// unrecorded prints that a proof could not be stored beside the backup. The result counts all the same. It prints
// nothing if the backup was deleted meanwhile.
func (b *Backups) unrecorded(err error) {
	if err != nil && !errors.Is(err, snapshot.ErrNotFound) {
		fmt.Fprintf(b.said, "the result is known here only: %v\n", err)
	}
}

// Drill restores a backup, or latest, in a process of its own, starts it there, and records the result. A backup that
// cannot be restored is a result, not an error: the error means that the drill was not tried.
func (b *Backups) Drill(ctx context.Context, name string) (d snapshot.Drill, err error) {
	if name, err = b.resolve(ctx, name); err != nil {
		return d, err
	}
	err = b.Progressing(func(opt snapshot.Options) error {
		d, err = child.Drill(ctx, b.Store, name, opt)
		return err
	})
	if errors.Is(err, snapshot.ErrNotFound) {
		return d, noSuchBackup(name)
	}
	if err != nil {
		return d, fmt.Errorf("backup %s was not tried: %w", name, err)
	}
	bound, cancel := context.WithTimeout(ctx, recordTime)
	defer cancel()
	id, err := generations.Identity(bound, b.Store, b.Config.Cluster.Name)
	if err == nil {
		err = snapshot.RecordDrill(bound, b.Store, id, d, b.opt)
	}
	b.unrecorded(err)
	return d, nil
}
