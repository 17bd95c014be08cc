package etcdmanager

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// The flags of the manifest in deploy/kops are understood without a warning, and what they name on the machine is
// mounted.
func TestManifest(t *testing.T) {
	text, err := os.ReadFile("../../deploy/kops/etcd-manager-main.yaml")
	if err != nil {
		t.Fatal(err)
	}
	type mount struct {
		Name string
		Path string `yaml:"mountPath"`
	}
	var pod struct {
		Spec struct {
			Containers []struct {
				Command, Args []string
				Env           []struct{ Name, Value string }
				Mounts        []mount `yaml:"volumeMounts"`
			}
			Volumes []struct{ Name string }
		}
	}
	if err := yaml.NewDecoder(bytes.NewReader(text)).Decode(&pod); err != nil {
		t.Fatal(err)
	}
	c := pod.Spec.Containers[0]
	at := slices.Index(c.Args, "/ko-app/etcd-manager")
	if !slices.Equal(c.Command, []string{"/go-runner"}) || at < 0 {
		t.Fatalf("it runs %q %q", c.Command, c.Args)
	}
	var environ []string
	for _, e := range c.Env {
		environ = append(environ, e.Name+"="+e.Value)
	}
	o, err := Parse(c.Args[at+1:])
	if err != nil {
		t.Fatal(err)
	}
	meaning, err := Translate(o, environ, machine)
	if err != nil || len(meaning.Warnings) > 0 {
		t.Fatalf("%q: %v", meaning.Warnings, err)
	}
	for _, s := range meaning.Settings {
		if !strings.HasPrefix(s.Text, "/") {
			continue
		}
		if !slices.ContainsFunc(c.Mounts, func(m mount) bool { return strings.HasPrefix(s.Text+"/", m.Path+"/") }) {
			t.Errorf("%s is %s, which is not mounted", s.Key, s.Text)
		}
	}
	for i, m := range c.Mounts {
		if m.Name != pod.Spec.Volumes[i].Name {
			t.Errorf("volume %s is mounted as %s", pod.Spec.Volumes[i].Name, m.Path)
		}
	}
}
