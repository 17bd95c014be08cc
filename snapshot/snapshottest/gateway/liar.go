package gateway

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"regexp"
	"sync"
)

// Liar tells lies in answer to a share of the requests, chosen by a seed: errors, successes that are none, answers that
// are lost or cut short, objects that are not there, and listings that are old, empty or incomplete. It never delays.
type Liar struct {
	share float64

	mu     sync.Mutex
	random *rand.Rand
	old    map[string][]byte // the first answer to each listing
}

// NewLiar returns a liar. share is how many of the requests it answers with a lie, from 0 to 1.
func NewLiar(seed uint64, share float64) *Liar {
	return &Liar{share: share, random: rand.New(rand.NewPCG(seed, 0)), old: map[string][]byte{}}
}

// Lie is a [Fault].
func (l *Liar) Lie(p *Proxy, w http.ResponseWriter, r *http.Request) bool {
	l.mu.Lock()
	lies, choice, some := l.random.Float64() < l.share, l.random.IntN(1<<20), l.random.Uint64()
	l.mu.Unlock()
	faults := []Fault{Answer(http.StatusServiceUnavailable, "SlowDown"), Success(""), Success("<html></html>"),
		Success("<Error><Code>InternalError</Code></Error>"), CutAnswer(int64(some % 300))}
	switch {
	case IsListing(r):
		if !lies {
			return AlterListing(l.remember(r))(p, w, r)
		}
		faults = append(faults, AlterListing(l.outdated(r)), AlterListing(Unlisted), AlterListing(partial(some)))
	case r.Method == http.MethodGet:
		faults = append(faults, Answer(http.StatusNotFound, "NoSuchKey"))
	default:
		faults = append(faults, LostAnswer)
	}
	return lies && faults[choice%len(faults)](p, w, r)
}

// remember keeps the first answer to a listing.
func (l *Liar) remember(r *http.Request) func(body []byte) []byte {
	return func(body []byte) []byte {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.old[r.URL.RequestURI()] == nil {
			l.old[r.URL.RequestURI()] = body
		}
		return body
	}
}

// outdated answers with the first answer.
func (l *Liar) outdated(r *http.Request) func(body []byte) []byte {
	return func(body []byte) []byte {
		l.remember(r)(body)
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.old[r.URL.RequestURI()]
	}
}

// partial leaves out a third of a listing.
func partial(seed uint64) func(body []byte) []byte {
	return func(body []byte) []byte {
		random := rand.New(rand.NewPCG(seed, 0))
		return listed.ReplaceAllFunc(body, func(object []byte) []byte {
			if random.IntN(3) == 0 {
				return nil
			}
			return object
		})
	}
}

// listed is an object in a listing.
var listed = regexp.MustCompile(`(?s)<Contents>.*?</Contents>`)

// Unlisted leaves all objects out of a listing, for [AlterListing].
func Unlisted(body []byte) []byte { return listed.ReplaceAll(body, nil) }

// IsListing reports whether a request asks for a listing of objects.
func IsListing(r *http.Request) bool {
	return r.Method == http.MethodGet && r.URL.Query().Get("list-type") == "2"
}

// AlterListing answers a request for a listing with what alter makes of the answer.
func AlterListing(alter func(body []byte) []byte) Fault {
	return func(p *Proxy, w http.ResponseWriter, r *http.Request) bool {
		if !IsListing(r) {
			return false
		}
		answer := p.Forward(r)
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		if answer.StatusCode == http.StatusOK {
			body = alter(body)
		}
		answer.Header.Set("Content-Length", fmt.Sprint(len(body)))
		header(w, answer)
		io.Copy(w, bytes.NewReader(body))
		return true
	}
}

// Success answers with status 200 and a body, and does nothing.
func Success(body string) Fault {
	return func(_ *Proxy, w http.ResponseWriter, r *http.Request) bool {
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, body)
		return true
	}
}
