package ebs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"go.uber.org/zap"
)

// Self is the instance that this process runs on.
type Self struct {
	Instance string
	Region   string
	Zone     string
	Account  string // "" if the metadata service was not needed
}

// Identity implements [Metadata]. What the configuration does not say is read once from the
// identity document of the instance metadata service, only through version 2: version 1 answers anyone who can make
// this machine send a plain GET. After an error the next call asks again.
func (e *EC2) Identity(ctx context.Context) (Self, error) {
	if me := e.self.Load(); me != nil {
		return *me, nil
	}
	if err := e.asking.Acquire(ctx, 1); err != nil {
		return Self{}, fmt.Errorf("wait for the instance's identity: %w", err)
	}
	defer e.asking.Release(1)
	if me := e.self.Load(); me != nil {
		return *me, nil
	}
	me := Self{Instance: e.cfg.Instance, Region: e.cfg.Region, Zone: e.cfg.Zone}
	if missing := me.missing(); len(missing) > 0 {
		out, err := e.metadata.GetInstanceIdentityDocument(ctx, &imds.GetInstanceIdentityDocumentInput{})
		if err != nil {
			return Self{}, &identityError{missing, err}
		}
		me = e.complete(me, out.InstanceIdentityDocument)
		if missing := me.missing(); len(missing) > 0 {
			return Self{}, &identityError{missing, errors.New("the identity document does not say")}
		}
	}
	e.self.Store(&me)
	return me, nil
}

// missing returns the configuration keys of the unknown fields.
func (s Self) missing() []string {
	var keys []string
	for _, part := range []struct{ key, value string }{
		{"volume.ebs.instance", s.Instance}, {"volume.ebs.region", s.Region}, {"volume.ebs.zone", s.Zone},
	} {
		if part.value == "" {
			keys = append(keys, part.key)
		}
	}
	return keys
}

// complete fills in what the configuration does not say from the document.
func (e *EC2) complete(me Self, doc imds.InstanceIdentityDocument) Self {
	me.Account = doc.AccountID
	me.Instance = cmp.Or(me.Instance, doc.InstanceID)
	me.Zone, me.Region = cmp.Or(me.Zone, doc.AvailabilityZone), cmp.Or(me.Region, doc.Region)
	if doc.Region != "" && me.Region != doc.Region {
		e.log.Warn("the configured region is not the one of this instance, which can attach no volume of another one",
			zap.String("configured", me.Region), zap.String("instance", doc.Region))
	}
	return me
}

// identityError says that the metadata service does not provide values that the configuration lacks.
type identityError struct {
	missing []string
	err     error
}

func (e *identityError) Error() string {
	return fmt.Sprintf("read the identity document of the instance metadata service (IMDSv2): %v: set %s, or let the "+
		"service answer: it must be enabled and, for a process in a container, its hop limit be 2 or more "+
		"(HttpPutResponseHopLimit)", e.err, strings.Join(e.missing, ", "))
}

func (e *identityError) Unwrap() error { return e.err }

// noRegion turns an identityError into one that only asks for the region, as on an operator's machine.
func noRegion(err error) error {
	if e, ok := errors.AsType[*identityError](err); ok {
		return &identityError{[]string{"volume.ebs.region or AWS_REGION"}, e.err}
	}
	return err
}

// inRegion reports whether the zone belongs to the region: the names of all zones begin with the region's ("Regions and
// Zones" of the EC2 guide: us-east-1a, us-east-1-bos-1a).
func (s Self) inRegion() bool { return strings.HasPrefix(s.Zone, s.Region) }
