// Package headroom sets how much garbage a node may keep before it collects.
//
// Go's own rule is a factor: GOGC=100 collects when the heap has doubled. A member's live heap is often 20 MiB, so it
// collects often under load, although the machine has gigabytes. A [Room] counts in bytes instead. The heap may grow
// by what is allocated in five seconds, at most by a budget, and never by less than Go's own rule allows:
//
//   - A small heap under load gets the whole budget, a large factor.
//   - A heap larger than the budget keeps Go's factor of 100, and so is never collected more often than plain etcd's.
//   - An idle node allocates little, so it keeps Go's factor as well, and does not grow.
//
// The budget is 1/32 of the memory limit, at most 64 MiB. The memory limit is 90 % of what the cgroup allows, or of the
// machine's RAM where that is less. The limit is Go's, a soft one: near it the runtime collects more often, whatever
// the factor is. It does not count etcd's mapped database, which the kernel can reclaim.
//
// The user's variables stand: GOGC turns the budget off, GOMEMLIMIT replaces the limit. AUTOMEMLIMIT, a ratio or off,
// is the library's. What is in force is logged at the start, and is in go_gc_gogc_percent and go_gc_gomemlimit_bytes.
//
// Nothing here is about safety: with any values a node only becomes slower or larger.
package headroom
