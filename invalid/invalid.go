package invalid

import (
	"errors"
	"fmt"
)

// Join returns everything that validate reports, each as "key: what is wrong", or nil.
func Join(validate func(wrong func(key, format string, args ...any))) error {
	var errs []error
	validate(func(key, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: %s", key, fmt.Sprintf(format, args...)))
	})
	return errors.Join(errs...)
}
