package show_test

import (
	"strings"
	"testing"

	"holdfast/cmd/show"
	"holdfast/volume"
)

func TestContents(t *testing.T) {
	for _, c := range []struct {
		contents volume.Contents
		want     string
		warned   bool
	}{
		{volume.Contents{}, "the volume of slot a, /v/a, holds nothing\n", false},
		{volume.Contents{Names: []string{"etcd", "founding.json"}}, "the volume of slot a, /v/a, holds etcd, founding.json\n", false},
		{volume.Contents{Names: strings.Split("a b c d e f g h i j k l", " ")}, "holds a, b, c, d, e, f, g, h, i, j and 2 more\n", false},
		{volume.Contents{Names: []string{"data", "state"}, EtcdManager: []string{"state", "data/x"}},
			"WARNING: that is the data of a cluster of etcd-manager (state, data/x); set aside, it serves nobody", true},
	} {
		got := show.Contents("a", "/v/a", c.contents)
		if !strings.Contains(got, c.want) || strings.Contains(got, "WARNING") != c.warned || strings.Contains(got, "restore its newest backup") != c.warned {
			t.Errorf("%+v: got %q, want %q", c.contents, got, c.want)
		}
		// Nothing was set aside in the place of a disk that is missing, and there is no directory to look into.
		got, moved := show.SetAside("/v/a", c.contents), len(c.contents.Names) > 0
		if strings.Contains(got, "/v/a/aside") != moved {
			t.Errorf("%+v: then got %q", c.contents, got)
		}
	}
}
