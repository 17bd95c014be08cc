// Package config is the configuration of a node: the keys with their defaults, where each value comes from, and what is
// wrong with it.
//
// A key has one name everywhere: gossip.seeds in the file (YAML), --gossip.seeds as a flag, HOLDFAST_GOSSIP_SEEDS in
// the environment. [Keys] finds all keys by reflection over [Config], whose sections belong to the packages that they
// configure, so the three sources can never know different keys. [Load] puts flags before the environment, the
// environment before the file, and the file before the defaults. It then fills in what follows from other keys
// (derive.go), and reports everything that is wrong at once: each error names the key, the allowed values, the value
// and where it stands. What is valid and seldom wise is a warning.
//
// default.yaml is the commented default file. The help of every flag comes from it, and a test compares it with
// [Default]. A value that is ${env:NAME} or ${file:PATH} stands for something else, perhaps a secret: only the
// reference is ever shown (reference.go). [Watch] and [Loaded.Reload] take over what can change while the node runs.
//
// Viper decides which source wins (merge); docs/dependencies.md says why reading, judging and watching are ours. It is
// imported only here. The package reads the files that it is named, and otherwise has no effect on the machine.
package config
