package node

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"holdfast/embedded/plan"
)

// A member says whom it is connected to; what answers in its place says nothing.
func TestAskLinks(t *testing.T) {
	const gauge = "# TYPE etcd_network_active_peers gauge\n"
	serve := func(code int, text string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/metrics" {
				code = http.StatusNotFound
			}
			w.WriteHeader(code)
			_, _ = io.WriteString(w, text)
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	link := func(local, remote, value string) string {
		return `etcd_network_active_peers{Local="` + local + `",Remote="` + remote + `"} ` + value + "\n"
	}
	good := serve(200, gauge+link("a1", "b2", "1")+link("a1", "c3", "0")+link("f6", "e5", "1")+"other 1\n")
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer hangs.Close()
	elsewhere := serve(200, gauge+link("b2", "a1", "1"))
	for name, tc := range map[string]struct {
		urls []string
		want []plan.ID
		err  string
	}{
		"it answers":           {[]string{good}, []plan.ID{0xb2}, ""},
		"with a slash":         {[]string{good + "/"}, []plan.ID{0xb2}, ""},
		"another answers":      {[]string{elsewhere}, nil, "the member a1 does not answer there"},
		"another, and then it": {[]string{elsewhere, good}, []plan.ID{0xb2}, ""},
		"one hangs":            {[]string{hangs.URL, good}, []plan.ID{0xb2}, ""},
		"connected to none":    {[]string{serve(200, gauge+link("a1", "b2", "0"))}, nil, ""},
		"no such gauge":        {[]string{serve(200, "other 1\n")}, nil, "the member a1 does not answer there"},
		"no metrics":           {[]string{serve(404, "")}, nil, "404"},
		"something else":       {[]string{serve(200, "<html>")}, nil, "read http"},
		"nobody answers":       {[]string{"http://127.0.0.1:1"}, nil, "refused"},
		"it has told no URL":   {nil, nil, "no client URL"},
	} {
		got := askLinks(t.Context(), http.DefaultClient, tc.urls, 0xa1)
		if !slices.Equal(got.Peers, tc.want) || !strings.Contains(got.Err, tc.err) || (got.Err == "") != (tc.err == "") {
			t.Errorf("%s: got %+v, want %v, %q", name, got, tc.want, tc.err)
		}
	}
}
