// Package control is how commands talk to a running node: HTTP over a unix socket, and over TLS where control.listen is
// set. Answers are JSON; an error is {"error": "..."} with a status of 4xx or 5xx. POST /snapshot answers with lines of
// JSON, the last of which may be an error.
//
// [Server] decides who may ask for what before a handler sees the request. On the socket these are root and the user
// that holdfast runs as, whatever the mode of the file says. From another machine it is a certificate of the clients'
// authority whose common name is in control.readers, who may look, or in control.operators, who may change something.
// Any other certificate of that authority may ask for what concerns itself alone. A dry run changes nothing
// (access.go). What a request came to is told to Server.Remember (audit.go). Requests and connections are bounded.
//
// [Routes] is the table of what can be asked for, which cmd/node/routes.go fills. Who may look, and what is remembered,
// follow from it. [Client] is the other side: each command calls its route through [Client.Get].
package control
