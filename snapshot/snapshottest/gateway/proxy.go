package gateway

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// Proxy is an HTTP proxy in front of a gateway, with faults.
type Proxy struct {
	// URL is the endpoint.
	URL string

	target string
	client *http.Client
	done   chan struct{} // closed at the end of the test, which ends stalled requests

	mu    sync.Mutex
	fault Fault
	seen  []string
}

// Fault handles a request, or returns false without having done anything; then the request is forwarded as usual. Most
// faults check r.Method and r.URL first, to let other requests pass.
type Fault func(p *Proxy, w http.ResponseWriter, r *http.Request) bool

// NewProxy starts a proxy in front of the endpoint target. It ends with the test.
func NewProxy(t testing.TB, target string) *Proxy {
	p := &Proxy{target: target, done: make(chan struct{}), client: &http.Client{
		Transport:     &http.Transport{DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	server := httptest.NewServer(p)
	p.URL = server.URL
	t.Cleanup(func() {
		close(p.done)
		server.CloseClientConnections()
		server.Close()
		p.client.CloseIdleConnections()
	})
	return p
}

// Set makes f the fault from now on, nil for none, and forgets the requests seen so far.
func (p *Proxy) Set(f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault, p.seen = f, nil
}

// Seen returns the requests since the last Set, as "METHOD /path?query".
func (p *Proxy) Seen() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.seen...)
}

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	fault := p.fault
	p.seen = append(p.seen, r.Method+" "+r.URL.RequestURI())
	p.mu.Unlock()
	if fault != nil && fault(p, w, r) {
		return
	}
	answer := p.Forward(r)
	defer answer.Body.Close()
	body := io.Reader(answer.Body)
	if answer.StatusCode >= http.StatusMultipleChoices {
		// A refusal may come before the whole request was sent. The first byte to the client ends the reading of its request,
		// and so the request to the gateway and its answer. So read the whole answer first.
		whole, err := io.ReadAll(answer.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		body = bytes.NewReader(whole)
	}
	header(w, answer)
	io.Copy(w, body)
}

// Forward forwards a request and returns the answer. If there is none, it cuts the client's connection.
func (p *Proxy) Forward(r *http.Request) *http.Response {
	out, err := http.NewRequestWithContext(r.Context(), r.Method, p.target+r.URL.RequestURI(), r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	out.Header = r.Header.Clone()
	out.Host = r.Host // it is signed
	out.ContentLength = r.ContentLength
	answer, err := p.client.Do(out)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	return answer
}

func header(w http.ResponseWriter, answer *http.Response) {
	maps.Copy(w.Header(), answer.Header)
	w.WriteHeader(answer.StatusCode)
}

// Answer answers with an error of the service.
func Answer(status int, code string) Fault {
	return func(_ *Proxy, w http.ResponseWriter, r *http.Request) bool {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/xml")
		w.Header().Set("X-Amz-Request-Id", "PROXY")
		w.WriteHeader(status)
		fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>%s</Code><Message>made up</Message></Error>`, code)
		return true
	}
}

// LostAnswer forwards the request, and cuts the connection instead of answering.
func LostAnswer(p *Proxy, _ http.ResponseWriter, r *http.Request) bool {
	answer := p.Forward(r)
	io.Copy(io.Discard, answer.Body)
	answer.Body.Close()
	panic(http.ErrAbortHandler)
}

// CutRequest reads n bytes of the request and cuts the connection.
func CutRequest(n int64) Fault {
	return func(_ *Proxy, _ http.ResponseWriter, r *http.Request) bool {
		io.CopyN(io.Discard, r.Body, n)
		panic(http.ErrAbortHandler)
	}
}

// CutAnswer sends n bytes of the answer's body and cuts the connection.
func CutAnswer(n int64) Fault {
	return func(p *Proxy, w http.ResponseWriter, r *http.Request) bool {
		p.some(w, r, n)
		panic(http.ErrAbortHandler)
	}
}

// StallAnswer sends n bytes of the answer's body and then nothing, for as long as the client waits.
func StallAnswer(n int64) Fault {
	return func(p *Proxy, w http.ResponseWriter, r *http.Request) bool {
		p.some(w, r, n)
		p.wait(r)
		return true
	}
}

// Stall reads nothing and never answers.
func Stall(p *Proxy, _ http.ResponseWriter, r *http.Request) bool {
	p.wait(r)
	panic(http.ErrAbortHandler)
}

// some sends the head and the first n bytes of an answer.
func (p *Proxy) some(w http.ResponseWriter, r *http.Request, n int64) {
	answer := p.Forward(r)
	defer answer.Body.Close()
	header(w, answer)
	io.CopyN(w, answer.Body, n)
	w.(http.Flusher).Flush()
}

func (p *Proxy) wait(r *http.Request) {
	select {
	case <-p.done:
	case <-r.Context().Done():
	}
}

// Times applies f only to the first n requests that reach it: use it within On.
func Times(n int, f Fault) Fault {
	var mu sync.Mutex
	return func(p *Proxy, w http.ResponseWriter, r *http.Request) bool {
		mu.Lock()
		due := n > 0
		if due {
			n--
		}
		mu.Unlock()
		return due && f(p, w, r)
	}
}

// On applies f only to requests of a method whose path and query contain part.
func On(method, part string, f Fault) Fault {
	return func(p *Proxy, w http.ResponseWriter, r *http.Request) bool {
		return r.Method == method && strings.Contains(r.URL.RequestURI(), part) && f(p, w, r)
	}
}
