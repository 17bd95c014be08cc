package etcdclient

import (
	"net"
	"strings"
	"testing"
)

// The reasons why an endpoint does not answer are distinguished.
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
