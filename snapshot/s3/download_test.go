package s3_test

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"holdfast/snapshot"
	"holdfast/snapshot/snapshottest/gateway"
)

// cutDownload cuts the connection in the middle of an object: the part must not be taken for the whole.
func cutDownload(t *testing.T, g *gateway.Gateway) {
	s, p, _ := behind(t, g)
	must(t, s.Put(t.Context(), "a", noise(large)))
	p.Set(gateway.On("GET", "", gateway.CutAnswer(9<<20)))
	if got, err := read(t.Context(), s, "a"); err == nil || !strings.Contains(err.Error(), "read object a") {
		t.Errorf("Get: want an error after 9 MiB, got %d bytes, %v", len(got), err)
	}
}

// changedDownload flips one bit in transit, in an object of one part and in one of three: the checksum detects it.
func changedDownload(t *testing.T, g *gateway.Gateway) {
	s, p, _ := behind(t, g)
	for name, size := range map[string]int64{"small": 1 << 20, "large": large} {
		must(t, s.Put(t.Context(), name, noise(size)))
	}
	p.Set(func(p *gateway.Proxy, w http.ResponseWriter, r *http.Request) bool {
		answer := p.Forward(r)
		defer answer.Body.Close()
		body, _ := io.ReadAll(answer.Body)
		body[len(body)/2] ^= 0x10
		maps.Copy(w.Header(), answer.Header)
		w.Write(body)
		return true
	})
	for _, name := range []string{"small", "large"} {
		if _, err := read(t.Context(), s, name); err == nil || !strings.Contains(err.Error(), "checksum") {
			t.Errorf("Get(%s): want an error about its checksum, got %v", name, err)
		}
	}
}

// stalledDownload sends nothing more in the middle of an object.
func stalledDownload(t *testing.T, g *gateway.Gateway) {
	s, p, bucket := behind(t, g)
	must(t, s.Put(t.Context(), "a", noise(large)))
	p.Set(gateway.On("GET", "", gateway.StallAnswer(9<<20)))
	s = connect(t, "s3://"+bucket+"/backups/main", p.URL)
	s.Hurry(200 * time.Millisecond)
	start := time.Now()
	if _, err := read(t.Context(), s, "a"); err == nil || !strings.Contains(err.Error(), "nothing moved on the connection for 200ms") {
		t.Errorf("Get: want an error about silence, got %v", err)
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("Get: want an error soon after 200ms, got it after %s", took)
	}
}

// bucketDisappears removes the bucket: that is neither an empty store nor a free name.
func bucketDisappears(t *testing.T, g *gateway.Gateway) {
	s, _, bucket := behind(t, g)
	if got, err := s.List(t.Context(), ""); err != nil || len(got) != 0 {
		t.Errorf("List of an empty bucket: want nothing, got %v, %v", got, err)
	}
	must(t, s.Put(t.Context(), "c/get", strings.NewReader("x")))
	must(t, os.RemoveAll(filepath.Join(g.Root, bucket)))
	wantTrouble(t, s, "create the bucket, or correct snapshot.store")
}

// bucketGoesMidway removes the bucket during the upload of a large object.
func bucketGoesMidway(t *testing.T, g *gateway.Gateway) {
	s, _, bucket := behind(t, g)
	gone := after(noise(17<<20), func() { os.RemoveAll(filepath.Join(g.Root, bucket)) })
	if err := s.Put(t.Context(), "a", io.MultiReader(gone, noise(9<<20))); err == nil || errors.Is(err, snapshot.ErrNotFound) {
		t.Errorf("Put: want an error, got %v", err)
	}
}

// sweep finds uploads of crashed writers: those of backups' data below the prefix that are a day old.
func sweep(t *testing.T, g *gateway.Gateway) {
	s, p, bucket := behind(t, g)
	client, err := s.Client(t.Context())
	must(t, err)
	old := []string{"backups/main/c/n/etcd.backup.zst", "backups/main/c/n/etcd.backup.gz.age", "backups/main/other", "elsewhere/etcd.backup.zst"}
	var left []string
	for _, key := range append(old, "backups/main/c/n/young/etcd.backup.zst") {
		out, err := client.CreateMultipartUpload(t.Context(), &awss3.CreateMultipartUploadInput{Bucket: &bucket, Key: aws.String(key)})
		must(t, err)
		if slices.Contains(old, key) { // the gateway uses the time of the upload's directory
			found, err := filepath.Glob(filepath.Join(g.Root, bucket, ".sgwtmp", "multipart", "*", *out.UploadId))
			if err != nil || len(found) != 1 {
				t.Fatalf("find upload %s: got %q, %v", *out.UploadId, found, err)
			}
			must(t, os.Chtimes(found[0], time.Time{}, time.Now().Add(-25*time.Hour)))
		}
	}
	p.Set(nil)
	must(t, s.Put(t.Context(), "c/small", strings.NewReader("x")))
	must(t, s.Put(t.Context(), "c/1", noise(large)))
	must(t, s.Put(t.Context(), "c/2", noise(large)))
	if got := len(slices.DeleteFunc(p.Seen(), func(r string) bool { return !strings.HasPrefix(r, "GET ") })); got != 1 {
		t.Errorf("listings of uploads: want 1, got %q", p.Seen())
	}
	out, err := client.ListMultipartUploads(t.Context(), &awss3.ListMultipartUploadsInput{Bucket: &bucket})
	must(t, err)
	for _, u := range out.Uploads {
		left = append(left, *u.Key)
	}
	if want := []string{"backups/main/c/n/young/etcd.backup.zst", "backups/main/other", "elsewhere/etcd.backup.zst"}; !slices.Equal(left, want) {
		t.Errorf("uploads left: want %q, got %q", want, left)
	}
}

// foreignKeys are in the same bucket, and there are more objects than fit on a page.
func foreignKeys(t *testing.T, g *gateway.Gateway) {
	s, _, bucket := behind(t, g)
	dir := filepath.Join(g.Root, bucket, "backups", "main")
	must(t, os.MkdirAll(filepath.Join(dir, "c"), 0o755))
	for _, name := range []string{"../mainly", "../../top", ".hidden", "a b", "ä", "a+b", "100%", "a%2Fb", "c/x&<y>", "line\nbreak", "bell\a"} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o644))
	}
	const objects = 2345
	for i := range objects {
		must(t, os.WriteFile(filepath.Join(dir, "c", "n:"+strings.Repeat("x", i%7)+string(rune('a'+i%26))+strings.Repeat("0", i/26)), []byte("x"), 0o644))
	}
	got, err := s.List(t.Context(), "")
	must(t, err)
	unique := slices.CompactFunc(slices.Clone(got), func(a, b snapshot.Object) bool { return a.Name == b.Name })
	if len(got) != objects || len(unique) != objects || !slices.IsSortedFunc(got, func(a, b snapshot.Object) int { return strings.Compare(a.Name, b.Name) }) {
		t.Errorf("List: want %d objects in order, got %d, %d unique, from %q to %q", objects, len(got), len(unique), got[0].Name, got[len(got)-1].Name)
	}
}

// memory checks the bound on the memory of a large Put.
func memory(t *testing.T, g *gateway.Gateway) {
	s, _ := open(t, g, g.URL)
	runtime.GC()
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	var peak, count uint64
	zeros := make([]byte, 64<<10)
	err := s.Put(t.Context(), "a", io.LimitReader(readerFunc(func(p []byte) (int, error) {
		if count++; count%64 == 0 {
			runtime.ReadMemStats(&now)
			peak = max(peak, now.HeapInuse+now.StackInuse)
		}
		return copy(p, zeros), nil
	}), 400<<20))
	must(t, err)
	extra := (peak - before.HeapInuse - before.StackInuse) >> 20
	t.Logf("a Put of 400 MiB took %d MiB of memory", extra)
	if extra > 56 {
		t.Errorf("a Put of 400 MiB: want at most 56 MiB of memory, got %d", extra)
	}
	r, err := s.Get(t.Context(), "a")
	must(t, err)
	defer r.Close()
	buf := make([]byte, len(zeros))
	for total := 0; ; {
		n, err := r.Read(buf)
		if total += n; !bytes.Equal(buf[:n], zeros[:n]) {
			t.Fatal("Get: want zeros")
		}
		if err == io.EOF && total == 400<<20 {
			break
		}
		must(t, err)
	}
}
