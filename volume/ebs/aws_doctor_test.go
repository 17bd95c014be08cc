package ebs

import (
	"net/http"
	"strings"
	"testing"
)

func TestPermissions(t *testing.T) {
	f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Form.Get("DryRun") != "true" {
			t.Errorf("%s was sent without DryRun", r.Form.Get("Action"))
		}
		switch r.Form.Get("Action") {
		case opTag:
			refuse(w, 403, "UnauthorizedOperation", "You are not authorized to perform this operation.")
		case opDetach:
			refuse(w, 400, "IncorrectState", "not attached")
		default:
			refuse(w, 412, "DryRunOperation", "Request would have succeeded, but DryRun flag is set.")
		}
	})
	e := newTestEC2(t, Config{Instance: "i-1", Region: "eu-test-1", Zone: "eu-test-1a", Endpoint: f.URL}, nil)
	got := map[string]Permission{}
	for _, p := range e.Permissions(t.Context(), "vol-1", "i-1") {
		got[p.Action] = p
		if p.Why == "" || (p.Detail == "") != p.Allowed {
			t.Errorf("%s: got %+v, want a reason, and a detail unless it is allowed", p.Action, p)
		}
	}
	for action, want := range map[string][3]bool{ // known, allowed, needed
		"ec2:DescribeVolumes": {true, true, true}, "ec2:DescribeInstances": {true, true, false},
		"ec2:AttachVolume": {true, true, true}, "ec2:DetachVolume": {false, false, true},
		"ec2:CreateTags": {true, false, false}, "ec2:DeleteTags": {true, true, false}, "ec2:CreateVolume": {true, true, false},
	} {
		if p := got[action]; [3]bool{p.Known, p.Allowed, p.Needed} != want {
			t.Errorf("%s: got %+v, want known, allowed, needed %v", action, p, want)
		}
	}
	if len(got) != 7 || !strings.Contains(got["ec2:DetachVolume"].Detail, "IncorrectState") {
		t.Errorf("got %+v", got)
	}
	form := f.requests(opTag)[0]
	if form["Tag.1.Key"] != TagClaim || form["Tag.3.Key"] != TagRecord || form["ResourceId.1"] != "vol-1" {
		t.Errorf("got %v, want the tags that the node writes", form)
	}
	if form := f.requests(opDetach)[0]; form["InstanceId"] != "i-1" || form["Force"] != "" {
		t.Errorf("got %v, want this instance and no force", form)
	}
}

// An endpoint that ignores DryRun would detach the volume of a serving member.
func TestPermissionsOfAnEndpointWithoutDryRun(t *testing.T) {
	for name, answer := range map[string]func(w http.ResponseWriter, r *http.Request){
		"ignores it": func(w http.ResponseWriter, r *http.Request) { accept(w, r, "") },
		"denies all": func(w http.ResponseWriter, r *http.Request) { refuse(w, 403, "UnauthorizedOperation", "no") },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, answer)
			all := f.client(nil).Permissions(t.Context(), "vol-1", "i-1")
			if len(all) != 7 {
				t.Errorf("got %d permissions, want 7", len(all))
			}
			for _, p := range all {
				if p.Allowed {
					t.Errorf("got %+v, want nothing allowed", p)
				}
			}
			for _, op := range []string{opAttach, opDetach, opTag, opUntag, opCreate} {
				if n := len(f.requests(op)); n != 0 {
					t.Errorf("%s was sent", op)
				}
			}
		})
	}
}

func TestPermissionsWithoutVolume(t *testing.T) {
	f := newFake(t, func(w http.ResponseWriter, r *http.Request) { refuse(w, 412, "DryRunOperation", "ok") })
	e := newTestEC2(t, Config{Instance: "i-1", Region: "eu-test-1", Zone: "eu-test-1a", Endpoint: f.URL}, nil)
	for _, p := range e.Permissions(t.Context(), "", "i-1") {
		if p.Action == "ec2:AttachVolume" && (p.Known || !strings.Contains(p.Detail, "no volume")) {
			t.Errorf("got %+v, want it not asked", p)
		}
	}
}

// If a request names no instance, a policy may decide by the volume alone.
func TestMayDetachAsksBothWays(t *testing.T) {
	for name, test := range map[string]struct {
		with, without string // EC2's answers
		known, may    bool
	}{
		"neither":         {"UnauthorizedOperation", "UnauthorizedOperation", true, false},
		"with it":         {"DryRunOperation", "UnauthorizedOperation", true, true},
		"without it":      {"UnauthorizedOperation", "DryRunOperation", true, true},
		"one is not told": {"IncorrectState", "UnauthorizedOperation", true, false},
		"none is told":    {"IncorrectState", "MissingParameter", false, false},
	} {
		f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Form.Get("DryRun") != "true" || r.Form.Get("VolumeId") != "vol-1" {
				t.Errorf("%s: got %v", name, r.Form)
			}
			code := test.without
			if r.Form.Get("InstanceId") == "i-2" {
				code = test.with
			}
			refuse(w, 403, code, "as the test has it")
		})
		if p := f.client(nil).mayDetach(t.Context(), "vol-1", "i-2"); p.Known != test.known || p.Allowed != test.may {
			t.Errorf("%s: got %+v, want known: %t, allowed: %t", name, p, test.known, test.may)
		}
	}
}
