package health

import "holdfast/embedded/plan"

// FullAdvice says what to do about a full database, "" if the cure of NOSPACE already says it.
func FullAdvice(u plan.Upkeep, m plan.Member) string {
	switch {
	case m.Alarmed(plan.NoSpace) && u.Cure:
		return ""
	case u.Roomy(m.Space):
		return ": what is free is used before the file grows"
	}
	return ": delete keys, or raise etcd.quota-backend-bytes on all nodes"
}
