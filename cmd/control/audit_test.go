package control

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

// A command is remembered with what came of it; a question, and a dry run, are not.
func TestCommandsAreAudited(t *testing.T) {
	var got []string
	s := &Server{Remember: func(d Answered) { got = append(got, strings.TrimSpace(d.Command+" "+d.Error)) }}
	routes := new(Routes)
	for route, how := range map[string][]How{
		"GET /status": nil, "POST /look": {Unremembered}, "POST /pause": {DryRun}, "POST /found": {DryRun}, "POST /drain": {DryRun},
		"POST /downgrade": nil, "DELETE /downgrade": nil, "POST /consent": nil,
	} {
		routes.Do(route, func(*http.Request) error { return nil }, how...)
	}
	routes.Do("POST /volume/set-aside", func(*http.Request) error { return os.ErrPermission }, DryRun)
	h := s.audited(routes)
	for _, r := range []*http.Request{
		httptest.NewRequest(http.MethodGet, "/status", nil),
		httptest.NewRequest(http.MethodPost, "/look", nil),
		httptest.NewRequest(http.MethodPost, "/pause?dry=true", nil),
		httptest.NewRequest(http.MethodPost, "/pause?why=work&by=ops", nil),
		httptest.NewRequest(http.MethodPost, "/found?abandon=false&new=true", nil),
		httptest.NewRequest(http.MethodPost, "/volume/set-aside", nil),
		httptest.NewRequest(http.MethodPost, "/drain?force=true&dry=false", nil),
		httptest.NewRequest(http.MethodPost, "/downgrade?to=3.6", nil),
		httptest.NewRequest(http.MethodDelete, "/downgrade", nil),
		httptest.NewRequest(http.MethodPost, "/consent?proposal=1234&by=root@bastion", nil),
		httptest.NewRequest(http.MethodPost, "/downgrade?to=3.5&dry=true", nil), // it knows no dry run, and so changes something
	} {
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	want := []string{`pause by="ops" why="work"`, `found new="true"`, "volume/set-aside permission denied",
		`drain force="true"`, `downgrade to="3.6"`, "downgrade cancel", `consent proposal="1234" by="root@bastion"`, `downgrade to="3.5"`}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Who may only look may ask what would be forgotten, and forget nothing.
func TestForgettingIsAChange(t *testing.T) {
	routes := new(Routes)
	routes.Do("POST /gossip/forget", func(*http.Request) error { return nil }, DryRun)
	for path, want := range map[string]bool{"/gossip/forget?node=x": false, "/gossip/forget?node=x&dry=true": true} {
		r := httptest.NewRequest(http.MethodPost, path, nil)
		if got := routes.looks(r); got != want {
			t.Errorf("%s only looks: got %v, want %v", path, got, want)
		}
		if got := commandText(r); !strings.Contains(got, `node="x"`) {
			t.Errorf("the history would say %q", got)
		}
	}
}
