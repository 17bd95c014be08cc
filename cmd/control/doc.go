// Package control connects commands to a running node: HTTP over a unix socket and, if control.listen is set, over
// TLS. Answers are JSON. An error is {"error": "..."} with a status of 4xx or 5xx. POST /snapshot answers with lines
// of JSON, the last of which may be an error.
//
// [Server] checks who may make a request before a handler sees it (access.go). On the socket, root and the user that
// holdfast runs as may do everything, whatever the mode of the file is. From another machine, a caller needs a
// certificate of the clients' authority. A common name in control.readers may look; one in control.operators may make
// changes. Any other certificate of that authority, and one of the peers' authority, may ask only for what concerns
// itself. Server.Remember gets the result of each request that changes something (server.go). Requests and connections
// are limited in size and number.
//
// [Routes] is the table of requests, which cmd/node/routes.go fills. Its options say which requests change nothing
// ([DryRun]), which any caller may make for itself ([Own]), and which are not remembered ([Unremembered]). [Client] is
// the other side: each command calls its route through [Client.Get].
package control
