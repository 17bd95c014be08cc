package etcdclient

import (
	"bytes"
	"crypto/sha256"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"holdfast/snapshot"
)

// A snapshot stream is taken only whole, however it comes in pieces.
func TestReceive(t *testing.T) {
	db := bytes.Repeat([]byte("0123456789abcdef"), 40000) // 640000 bytes, more than one buffer
	sum := sha256.Sum256(db)
	whole := append(bytes.Clone(db), sum[:]...)
	flipped := bytes.Clone(whole)
	flipped[1000] ^= 1
	for name, tt := range map[string]struct {
		stream io.Reader
		ok     bool
	}{
		"whole":           {bytes.NewReader(whole), true},
		"in halves":       {iotest.HalfReader(bytes.NewReader(whole)), true},
		"EOF with data":   {iotest.DataErrReader(bytes.NewReader(whole)), true},
		"byte by byte":    {iotest.OneByteReader(bytes.NewReader(whole)), true},
		"no trailer":      {bytes.NewReader(db), false},
		"cut":             {bytes.NewReader(whole[:len(whole)-512]), false},
		"cut in trailer":  {bytes.NewReader(whole[:len(whole)-1]), false},
		"a bit is wrong":  {bytes.NewReader(flipped), false},
		"nothing":         {bytes.NewReader(nil), false},
		"trailer alone":   {bytes.NewReader(sum[:]), false},
		"the server died": {io.MultiReader(bytes.NewReader(whole[:100000]), iotest.ErrReader(io.ErrUnexpectedEOF)), false},
	} {
		f, err := os.Create(filepath.Join(t.TempDir(), "db"))
		if err != nil {
			t.Fatal(err)
		}
		size, err := receive(f, tt.stream, int64(len(db)), func(snapshot.Progress) {})
		if (err == nil) != tt.ok {
			t.Errorf("%s: got %v", name, err)
		}
		if got, _ := os.ReadFile(f.Name()); tt.ok && (size != int64(len(db)) || !bytes.Equal(got, db)) {
			t.Errorf("%s: got %d bytes, file of %d", name, size, len(got))
		}
		f.Close()
	}
}

// What gives no answer is told apart.
func TestWhySilent(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	silent := "http://" + listener.Addr().String()
	if err := whySilent(t.Context(), silent, nil); !strings.Contains(err.Error(), "is it etcd's client port, and is http right?") {
		t.Errorf("whySilent of a listener: got %v", err)
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conn.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
			conn.Close()
		}
	}()
	if err := whySilent(t.Context(), strings.Replace(silent, "http", "https", 1), nil); !strings.Contains(err.Error(), "tls") {
		t.Errorf("whySilent, TLS to what does not speak it: got %v", err)
	}
	listener.Close()
	if err := whySilent(t.Context(), silent, nil); !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("whySilent of nobody: got %v", err)
	}
}
