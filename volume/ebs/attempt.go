package ebs

import (
	"time"
)

const (
	blindAfter = 5 * time.Second // that EC2 may take to list the volumes while the one that was held last is here
	unsettled  = 2 * time.Minute // after this an AttachVolume without an answer blocks no other volume
	// an attachment that has not brought the device by then is given up (as in aws-ebs-csi-driver)
	stuck      = 90 * time.Second
	deviceLook = 250 * time.Millisecond // between looks for the device
	cloudLook  = 5 * time.Second        // between looks at what EC2 says of it, and what one may take
	setback    = time.Minute            // before a volume is tried again that could not be attached
	patience   = 3                      // looks at EC2 in a row that must agree
)

func next(count int, again bool) int {
	if again {
		return count + 1
	}
	return 0
}
