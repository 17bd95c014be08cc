// Package config is the configuration of a node: the keys with their defaults, where each value comes from, and what is
// wrong with it.
//
// A key has one name everywhere: gossip.seeds in the file (YAML), --gossip.seeds as a flag, HOLDFAST_GOSSIP_SEEDS in
// the environment. [Keys] finds all keys by reflection over [Config], so the three sources can never know different
// keys. Each section of [Config] belongs to the package that it configures.
//
// In [Load], a flag overrides the environment, the environment the file, and the file the default. Load then fills in
// values that follow from other keys (derive.go), and reports all errors at once (contradictions.go has those of
// several keys). Each error names the key, the allowed values, the value and its origin. A value that is valid but
// seldom intended is a warning (doubts.go).
//
// default.yaml is the commented default file. The help of every flag comes from it, and a test compares it with
// [Default]. A value ${env:NAME} or ${file:PATH} refers to a variable or a file, which may be a secret: only the
// reference is ever shown (reference.go). [Watch] and [Loaded.Reload] apply changes while the node runs.
//
// Viper decides which source wins (merge), and is imported only here. docs/dependencies.md says why reading, checking
// and watching are our own code. The package reads the files that are named, and otherwise has no effect on the
// machine.
package config
