package invalid

import (
	"errors"
	"fmt"
)

// Join returns all that validate tells, each as "key: what is wrong", nil if it tells nothing.
func Join(validate func(wrong func(key, format string, args ...any))) error {
	var errs []error
	validate(func(key, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: %s", key, fmt.Sprintf(format, args...)))
	})
	return errors.Join(errs...)
}
