package s3_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"holdfast/snapshot"
)

// TestEndlessListing meets a service that always has more objects: listing too many ends with an error.
func TestEndlessListing(t *testing.T) {
	if testing.Short() {
		t.Skip("lists 200,000 objects")
	}
	t.Parallel()
	pages := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		var b strings.Builder
		for i := range 10_000 {
			fmt.Fprintf(&b, "<Contents><Key>%06d-%06d</Key><Size>1</Size></Contents>", pages, i)
		}
		pages++
		fmt.Fprintf(&b, "<IsTruncated>true</IsTruncated><NextContinuationToken>%d</NextContinuationToken>", pages)
		io.WriteString(w, "<ListBucketResult><Name>bucket</Name>"+b.String()+"</ListBucketResult>")
	}))
	defer server.Close()
	got, err := connect(t, "s3://bucket", server.URL).List(t.Context(), "")
	if !errors.Is(err, snapshot.ErrTooMany) || len(got) > 0 {
		t.Errorf("List: want that there are too many, got %d objects, %v", len(got), err)
	}
	if most := snapshot.MaxObjects/10_000 + 1; pages > most {
		t.Errorf("want at most %d pages to be asked for, got %d", most, pages)
	}
}
