// Package show renders the output of commands: the status and its explanation (--why), backups, volumes, certificates,
// the history, the report of `holdfast doctor`, and the steps of a downgrade, of a release and of a change of users. It
// also has what all commands share: JSON, tables and progress. It decides nothing; embedded/health finds what is wrong.
package show
