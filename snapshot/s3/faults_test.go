package s3_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"holdfast/snapshot"
	"holdfast/snapshot/s3"
	"holdfast/snapshot/snapshottest/gateway"
)

// behind returns a store in a new bucket, and the proxy in front of it.
func behind(t *testing.T, g *gateway.Gateway) (*s3.Store, *gateway.Proxy, string) {
	t.Helper()
	p := gateway.NewProxy(t, g.URL)
	s, bucket := open(t, g, p.URL)
	s.Hurry(20 * time.Second)
	return s, p, bucket
}

// large is three parts, the last one short.
const large = 20<<20 + 12345

func noise(n int64) io.Reader { return io.LimitReader(rand.NewChaCha8([32]byte{1}), n) }

// after calls f when the data before it has been read.
func after(r io.Reader, f func()) io.Reader {
	return io.MultiReader(r, readerFunc(func([]byte) (int, error) { f(); return 0, io.EOF }))
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func want(t *testing.T, s *s3.Store, name, text string) {
	t.Helper()
	if got, err := read(t.Context(), s, name); err != nil || got != text {
		t.Errorf("Get(%s): want %.40q, got %.40q, %v", name, text, got, err)
	}
}

func wantNoise(t *testing.T, s *s3.Store, name string) {
	t.Helper()
	got, err := read(t.Context(), s, name)
	text, _ := io.ReadAll(noise(large))
	if err != nil || got != string(text) {
		t.Errorf("Get(%s): want the %d bytes that were put, got %d, %v", name, len(text), len(got), err)
	}
}

// uploads counts the multipart uploads that are neither complete nor aborted.
func uploads(t *testing.T, s *s3.Store, bucket string) int {
	t.Helper()
	client, err := s.Client(t.Context())
	must(t, err)
	out, err := client.ListMultipartUploads(t.Context(), &awss3.ListMultipartUploadsInput{Bucket: &bucket})
	must(t, err)
	return len(out.Uploads)
}

func TestFaults(t *testing.T) {
	g := gateway.Start(t, "")
	for name, test := range map[string]func(*testing.T, *gateway.Gateway){
		"Throttling":            throttling,
		"SlowAnswers":           slowAnswers,
		"LostAnswers":           lostAnswers,
		"LostAnswerRace":        lostAnswerRace,
		"DeletedMeanwhile":      deletedMeanwhile,
		"InterruptedUpload":     interruptedUpload,
		"RepeatedInterruptions": repeatedInterruptions,
		"AbortFails":            abortFails,
		"CutDownload":           cutDownload,
		"ChangedDownload":       changedDownload,
		"StalledDownload":       stalledDownload,
		"BucketDisappears":      bucketDisappears,
		"BucketGoesMidway":      bucketGoesMidway,
		"Sweep":                 sweep,
		"ForeignKeys":           foreignKeys,
		"Memory":                memory,
	} {
		t.Run(name, func(t *testing.T) {
			if name != "Memory" { // it measures the whole process
				t.Parallel()
			}
			test(t, g)
		})
	}
}

// throttling refuses every request a few times: the store waits, and tries again.
func throttling(t *testing.T, g *gateway.Gateway) {
	s, p, _ := behind(t, g)
	must(t, s.Put(t.Context(), "c/get", strings.NewReader("x")))
	for name, do := range operations {
		p.Set(gateway.Times(3, gateway.Answer(503, "SlowDown")))
		if err := do(t.Context(), s); err != nil {
			t.Errorf("%s, throttled three times: want no error, got %v", name, err)
		}
		if got := len(p.Seen()); got != 4 {
			t.Errorf("%s, throttled three times: want 4 requests, got %d: %q", name, got, p.Seen())
		}
	}
	p.Set(gateway.On("PUT", "partNumber", gateway.Times(4, gateway.Answer(503, "SlowDown"))))
	must(t, s.Put(t.Context(), "c/large", noise(large)))
	wantNoise(t, s, "c/large")
}

// slowAnswers take longer in total than a connection may be silent, but are never silent for that long.
func slowAnswers(t *testing.T, g *gateway.Gateway) {
	s, p, _ := behind(t, g)
	s.Hurry(time.Second)
	text := strings.Repeat("0123456789", 50)
	p.Set(func(p *gateway.Proxy, w http.ResponseWriter, r *http.Request) bool {
		answer := p.Forward(r)
		defer answer.Body.Close()
		body, _ := io.ReadAll(answer.Body)
		maps.Copy(w.Header(), answer.Header)
		w.WriteHeader(answer.StatusCode)
		for piece := range len(body)/100 + 1 {
			time.Sleep(250 * time.Millisecond) // the fault itself, not a synchronisation
			w.Write(body[piece*100 : min(piece*100+100, len(body))])
			w.(http.Flusher).Flush()
		}
		return true
	})
	must(t, s.PutIfAbsent(t.Context(), "a", []byte(text)))
	want(t, s, "a", text)
	// A slow reader is not a stalled connection either.
	r, err := s.Get(t.Context(), "a")
	must(t, err)
	defer r.Close()
	_, err = io.ReadFull(r, make([]byte, 10))
	must(t, err)
	time.Sleep(1500 * time.Millisecond) // the slow reader itself
	if rest, err := io.ReadAll(r); err != nil || len(rest) != len(text)-10 {
		t.Errorf("a slow reader: want %d more bytes, got %d, %v", len(text)-10, len(rest), err)
	}
}

// lostAnswers executes every write and loses its answer, once.
func lostAnswers(t *testing.T, g *gateway.Gateway) {
	s, p, bucket := behind(t, g)
	once := func(method, part string) { p.Set(gateway.On(method, part, gateway.Times(1, gateway.LostAnswer))) }
	once("PUT", "")
	must(t, s.PutIfAbsent(t.Context(), "absent", []byte("mine")))
	want(t, s, "absent", "mine")
	once("PUT", "")
	if err := s.PutIfAbsent(t.Context(), "absent", []byte("mine")); !errors.Is(err, snapshot.ErrExists) {
		t.Errorf("PutIfAbsent of the same data again: want ErrExists, got %v", err)
	}
	once("PUT", "")
	must(t, s.Put(t.Context(), "small", strings.NewReader("x")))
	want(t, s, "small", "x")
	once("PUT", "partNumber=2")
	must(t, s.Put(t.Context(), "large", noise(large)))
	wantNoise(t, s, "large")
	once("POST", "uploadId")
	must(t, s.Put(t.Context(), "completed", noise(large)))
	wantNoise(t, s, "completed")
	// The gateway remembers a completed upload. Other services answer that there is no such upload.
	lost, unknown := gateway.Times(1, gateway.LostAnswer), gateway.Answer(404, "NoSuchUpload")
	p.Set(gateway.On("POST", "uploadId", func(p *gateway.Proxy, w http.ResponseWriter, r *http.Request) bool {
		return lost(p, w, r) || unknown(p, w, r)
	}))
	must(t, s.Put(t.Context(), "completed", noise(large)))
	p.Set(gateway.On("POST", "uploadId", unknown))
	if err := s.Put(t.Context(), "completed", noise(large)); err == nil || !strings.Contains(err.Error(), "NoSuchUpload") {
		t.Errorf("Put whose upload is gone, over an object of the same content: want an error, got %v", err)
	}
	once("DELETE", "")
	must(t, s.Delete(t.Context(), "small"))
	if got := uploads(t, s, bucket); got != 0 {
		t.Errorf("uploads left: want 0, got %d", got)
	}
}

// lostAnswerRace loses half of the answers while all put the same bytes: at most one may be told that it was first.
func lostAnswerRace(t *testing.T, g *gateway.Gateway) {
	_, p, bucket := behind(t, g)
	var n atomic.Int32
	p.Set(func(p *gateway.Proxy, w http.ResponseWriter, r *http.Request) bool {
		return r.Method == "PUT" && n.Add(1)%2 == 1 && gateway.LostAnswer(p, w, r)
	})
	var winners int32
	for round := range 10 {
		name := "record-" + string(rune('0'+round))
		var wg sync.WaitGroup
		var won atomic.Int32
		for range 6 {
			wg.Go(func() {
				s := connect(t, "s3://"+bucket, p.URL)
				s.Hurry(20 * time.Second)
				err := s.PutIfAbsent(t.Context(), name, []byte("all the same"))
				if err == nil {
					won.Add(1)
				} else if !errors.Is(err, snapshot.ErrExists) && !strings.Contains(err.Error(), "EOF") && !strings.Contains(err.Error(), "reset") {
					t.Errorf("PutIfAbsent: want nil, ErrExists or a cut connection, got %v", err)
				}
			})
		}
		wg.Wait()
		if won.Load() > 1 {
			t.Errorf("%s: want one winner, got %d", name, won.Load())
		}
		winners += won.Load()
	}
	if winners == 0 { // a round may have none, if all five answers to the first were lost
		t.Error("want a winner in most of the rounds, got none in any")
	}
}

// deletedMeanwhile deletes the object between the refusal and the question whose it is.
func deletedMeanwhile(t *testing.T, g *gateway.Gateway) {
	s, p, _ := behind(t, g)
	must(t, s.PutIfAbsent(t.Context(), "a", []byte("x")))
	p.Set(gateway.On("GET", "/a", gateway.Answer(404, "NoSuchKey")))
	if err := s.PutIfAbsent(t.Context(), "a", []byte("x")); err == nil || errors.Is(err, snapshot.ErrExists) || errors.Is(err, snapshot.ErrNotFound) {
		t.Errorf("PutIfAbsent: want an error that claims nothing, got %v", err)
	}
}

// interruptedUpload cuts every attempt at the second part: the upload is aborted, and the old object is still there.
func interruptedUpload(t *testing.T, g *gateway.Gateway) {
	s, p, bucket := behind(t, g)
	must(t, s.Put(t.Context(), "a", strings.NewReader("old")))
	p.Set(gateway.On("PUT", "partNumber=2", gateway.CutRequest(1<<20)))
	if err := s.Put(t.Context(), "a", noise(large)); err == nil || !strings.Contains(err.Error(), "put object a in s3://"+bucket) {
		t.Errorf("Put: want an error, got %v", err)
	}
	want(t, s, "a", "old")
	if got := uploads(t, s, bucket); got != 0 {
		t.Errorf("uploads left: want 0, got %d", got)
	}
	p.Set(nil)
	ctx, cancel := context.WithCancel(t.Context())
	if err := s.Put(ctx, "a", io.MultiReader(after(noise(large), cancel), noise(large))); !errors.Is(err, context.Canceled) {
		t.Errorf("Put with a context that ends: want Canceled, got %v", err)
	}
	// The upload may still exist: a part in transit may have arrived after the abort.
	if !slices.ContainsFunc(p.Seen(), func(r string) bool { return strings.HasPrefix(r, "DELETE ") && strings.Contains(r, "uploadId") }) {
		t.Errorf("Put with a context that ends: want the upload aborted, got %q", p.Seen())
	}
}

// repeatedInterruptions cuts a few connections: nobody notices.
func repeatedInterruptions(t *testing.T, g *gateway.Gateway) {
	s, p, _ := behind(t, g)
	var n atomic.Int32
	p.Set(func(p *gateway.Proxy, w http.ResponseWriter, r *http.Request) bool {
		switch n.Add(1) % 4 {
		case 1:
			return gateway.CutRequest(100<<10)(p, w, r)
		case 2:
			return gateway.Answer(500, "InternalError")(p, w, r)
		}
		return false
	})
	must(t, s.Put(t.Context(), "a", noise(large)))
	p.Set(nil)
	wantNoise(t, s, "a")
}

// abortFails makes the abort fail too: the error is still that of the upload.
func abortFails(t *testing.T, g *gateway.Gateway) {
	s, p, bucket := behind(t, g)
	broken := errors.New("broken source")
	p.Set(gateway.On("DELETE", "uploadId", gateway.Answer(403, "AccessDenied")))
	err := s.Put(t.Context(), "a", io.MultiReader(noise(large), readerFunc(func([]byte) (int, error) { return 0, broken })))
	if !errors.Is(err, broken) || err.Error() != "put object a: read its data: broken source" {
		t.Errorf("Put: want the reader's error, got %v", err)
	}
	if got := uploads(t, s, bucket); got != 1 {
		t.Errorf("uploads left: want 1, got %d", got)
	}
}
