// Package show renders what people are told of a cluster, as text: the table of `holdfast status`, the explanations of
// --why, what is known of backups, volumes and certificates, the history, the report of `holdfast doctor`, what a
// downgrade or a file of users and roles changes, the SBOM; and how every command shows progress and answers. It
// decides nothing: what is wrong is found by embedded/health.
package show
