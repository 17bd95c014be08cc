package durable

import "time"

// Soon returns what f returns, and whether that was within limit. f uses a disk or a mount, which may hang. What is
// late cannot be interrupted: it is left behind, and its result is lost.
func Soon[T any](limit time.Duration, f func() T) (result T, ok bool) {
	done := make(chan T, 1)
	go func() { done <- f() }()
	select {
	case result = <-done:
		return result, true
	case <-time.After(limit):
		return result, false
	}
}
