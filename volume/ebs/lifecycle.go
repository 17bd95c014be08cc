package ebs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"go.uber.org/zap"
	"golang.org/x/sync/semaphore"
)

// Lifecycle is what is planned for this instance, according to its metadata service.
type Lifecycle struct {
	// Target is the state that an auto-scaling group wants the instance in: InService, Standby, Detached, Terminated, or
	// Warmed: and one of Running, Stopped, Hibernated and Terminated. It is "" if there is no group or it is unknown.
	Target string
	// Action is what EC2 is about to do with this Spot instance: terminate, stop or hibernate, or "".
	Action string
	At     time.Time // of Action
	// Rebalance is when EC2 said that this Spot instance is at an elevated risk of interruption, or zero.
	Rebalance time.Time
}

// Leaves returns why no volume may stay at this instance, or "".
func (l Lifecycle) Leaves() string {
	switch {
	case l.Action == "terminate", l.Action == "stop", l.Action == "hibernate":
		return fmt.Sprintf("EC2 will %s this Spot instance at %s", l.Action, clock(l.At))
	case l.warm():
		return fmt.Sprintf("this instance is in a warm pool (%s), until its auto-scaling group wants it InService", l.Target)
	case l.Target == "Terminated":
		return "its auto-scaling group is about to terminate this instance"
	}
	return ""
}

func (l Lifecycle) warm() bool { return strings.HasPrefix(l.Target, "Warmed:") }

// problem returns what an operator should know about it. A warm pool is no problem: its instances are meant to wait.
func (l Lifecycle) problem() string {
	switch {
	case l.warm() && l.Action == "":
		return ""
	case l.Leaves() != "":
		return l.Leaves() + ": the volume is given back"
	case !l.Rebalance.IsZero():
		return fmt.Sprintf("EC2 has said at %s that this Spot instance is at an elevated risk of interruption",
			clock(l.Rebalance))
	}
	return ""
}

// Lifecycle implements [Metadata].
//
// The paths are in "Instance metadata categories" of the EC2 guide, "Retrieve the target lifecycle state through
// instance metadata" of the Auto Scaling guide, "Spot Instance interruption notices" and "EC2 instance rebalance
// recommendations". A path without content answers 404.
func (e *EC2) Lifecycle(ctx context.Context, last Lifecycle) (Lifecycle, error) {
	now := last
	target, err := e.planned(ctx, "autoscaling/target-lifecycle-state")
	if err == nil {
		now.Target = target
	}
	var notice struct {
		Action string    `json:"action"`
		Time   time.Time `json:"time"`
	}
	text, err2 := e.planned(ctx, "spot/instance-action")
	if err2 = decode(text, err2, &notice); err2 == nil {
		now.Action, now.At = notice.Action, notice.Time
	}
	var rebalance struct {
		Notice time.Time `json:"noticeTime"`
	}
	text, err3 := e.planned(ctx, "events/recommendations/rebalance")
	if err3 = decode(text, err3, &rebalance); err3 == nil {
		now.Rebalance = rebalance.Notice
	}
	return now, errors.Join(err, err2, err3)
}

// decode decodes the JSON of a notice. "" means that there is no notice.
func decode(text string, err error, notice any) error {
	if err != nil || text == "" {
		return err
	}
	if err := json.Unmarshal([]byte(text), notice); err != nil {
		return fmt.Errorf("read the notice %.80q: %w", text, err)
	}
	return nil
}

// planned reads one path of the metadata, or returns "" if it does not exist.
func (e *EC2) planned(ctx context.Context, path string) (string, error) {
	out, err := e.metadata.GetMetadata(ctx, &imds.GetMetadataInput{Path: path})
	if r, ok := errors.AsType[*smithyhttp.ResponseError](err); ok && r.HTTPStatusCode() == http.StatusNotFound {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read %s of the instance metadata service: %w", path, err)
	}
	defer out.Content.Close()
	text, err := io.ReadAll(io.LimitReader(out.Content, 4096))
	if err != nil {
		return "", fmt.Errorf("read %s of the instance metadata service: %w", path, err)
	}
	return strings.TrimSpace(string(text)), nil
}

const (
	// Less than the 5 s between a node's looks. AWS advises 5 s for Spot notices, which come at least 2 minutes before
	// the end.
	outlookEvery = 4 * time.Second
	outlookWait  = 2 * time.Second // for the metadata service, which is on this machine's host
)

// outlook remembers what is planned for this instance, and asks again if the answer is older than outlookEvery. A
// failing metadata service changes nothing: it neither takes a volume away nor gives one to a warm instance.
type outlook struct {
	log      *zap.Logger
	metadata Metadata

	asking *semaphore.Weighted // guards at and failed; held while the metadata service is asked
	at     time.Time
	failed bool

	mu   sync.Mutex // guards last; never held over a request
	last Lifecycle
}

func newOutlook(metadata Metadata, lg *zap.Logger) *outlook {
	return &outlook{log: lg, metadata: metadata, asking: semaphore.NewWeighted(1)}
}

// look returns what is planned; the answer is at most outlookEvery old.
func (o *outlook) look(ctx context.Context) Lifecycle {
	if o.asking.Acquire(ctx, 1) != nil {
		return o.now()
	}
	defer o.asking.Release(1)
	before := o.now()
	if time.Since(o.at) < outlookEvery {
		return before
	}
	limited, cancel := context.WithTimeout(ctx, outlookWait)
	defer cancel()
	now, err := o.metadata.Lifecycle(limited, before)
	o.at = time.Now()
	if err != nil && !o.failed && ctx.Err() == nil {
		o.log.Info("could not ask what is planned for this instance; continuing as before", zap.Error(err))
	}
	o.failed = err != nil
	if now != before {
		o.log.Info("learned what is planned for this instance", zap.String("target", now.Target),
			zap.String("action", now.Action), zap.Time("at", now.At), zap.Time("rebalance", now.Rebalance))
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last = now
	return now
}

// confirmed asks again what is planned, and ignores earlier answers. Their age cannot be used, because the clock of
// [time.Since] stands still while an instance hibernates.
func (o *outlook) confirmed(ctx context.Context) Lifecycle {
	ctx, cancel := context.WithTimeout(ctx, outlookWait)
	defer cancel()
	now, _ := o.metadata.Lifecycle(ctx, Lifecycle{})
	return now
}

func (o *outlook) now() Lifecycle {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.last
}

// Planned returns what is planned for this instance. It asks at most every outlookEvery, and waits at most two seconds.
func (p *Provider) Planned(ctx context.Context) Lifecycle { return p.outlook.look(ctx) }

// Standby returns the zone of this instance while it waits for a volume there and would take the first free one. It
// returns "" if the instance would take none: it holds one or is busy with one, or something is planned for it, even if
// only a rebalance recommendation.
func (p *Provider) Standby() string {
	plans := p.outlook.now()
	if p.status.now().State != stateStandby || plans.Leaves() != "" || !plans.Rebalance.IsZero() {
		return ""
	}
	return p.Zone()
}

// Zone returns the zone of this instance, or "" until it is known.
func (p *Provider) Zone() string { return p.self().Zone }

// Confirmed asks the metadata service again before a plan is acted on. A part that is not answered within two seconds
// is not planned.
func (p *Provider) Confirmed(ctx context.Context) Lifecycle { return p.outlook.confirmed(ctx) }
