package integration_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/integration"
)

// unit writes the unit of deploy/ as name.service into dir, with replacements.
func unit(t *testing.T, dir, name string, replace ...string) string {
	t.Helper()
	text, err := os.ReadFile("../deploy/holdfast.service")
	must(t, err)
	for i := 0; i < len(replace); i += 2 {
		if !strings.Contains(string(text), replace[i]) {
			t.Fatalf("the unit does not say %q", replace[i])
		}
	}
	path := filepath.Join(dir, name+".service")
	must(t, os.WriteFile(path, []byte(strings.NewReplacer(replace...).Replace(string(text))), 0o644))
	return path
}

// The images contain the public authorities: without them, no bucket at https can be reached.
func TestImagesHaveAuthorities(t *testing.T) {
	text, err := os.ReadFile("../Dockerfile")
	must(t, err)
	images := 0
	for _, stage := range strings.Split(string(text), "\nFROM ")[1:] {
		from, _, _ := strings.Cut(stage, "\n")
		switch base, _, _ := strings.Cut(from, " "); {
		case base == "scratch" && strings.Contains(stage, "ca-certificates.crt /etc/ssl/certs/"):
			images++
		case base == "scratch" || strings.HasSuffix(from, " kops") && !strings.Contains(stage, " ca-certificates "):
			t.Errorf("the image FROM %s has no authorities", from)
		}
	}
	if images != 2 {
		t.Errorf("got %d images from scratch, want 2", images)
	}
}

// systemd understands every line of the units, and rates their exposure well: on its scale 0 is best and 10 worst.
func TestUnits(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("systemd-analyze is not here")
	}
	program, err := exec.LookPath("true") // verify needs an existing program
	must(t, err)
	analyze := func(args ...string) (string, error) {
		out, err := exec.CommandContext(t.Context(), "systemd-analyze", args...).CombinedOutput()
		return string(out), err
	}
	dropIn, err := os.ReadFile("../deploy/holdfast-ebs.conf")
	must(t, err)
	for name, tt := range map[string]struct {
		dropIn    []byte
		threshold string // in tenths
		own       bool   // it has a mount namespace of its own
	}{
		"alone":    {nil, "15", true},
		"with EBS": {dropIn, "65", false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := unit(t, dir, "holdfast", "/usr/local/bin/holdfast", program)
			if tt.dropIn != nil {
				must(t, os.Mkdir(path+".d", 0o755))
				must(t, os.WriteFile(filepath.Join(path+".d", "ebs.conf"), tt.dropIn, 0o644))
			}
			if out, err := analyze("verify", path); err != nil || strings.TrimSpace(out) != "" {
				t.Errorf("systemd-analyze verify: %v\n%s", err, out)
			}
			out, err := analyze("security", "--offline=true", "--threshold="+tt.threshold, "--no-pager", path)
			if strings.Contains(out, "unrecognized option") || strings.Contains(out, "Failed to connect to bus") {
				t.Skip("this systemd-analyze does not judge files")
			}
			if err != nil {
				t.Errorf("systemd-analyze security: %v\n%s", err, out)
			}
			for line := range strings.Lines(out) {
				for _, option := range []string{"ProtectSystem=", "ProtectHome=", "PrivateTmp=", "PrivateDevices=", "PrivateUsers=", "ProtectKernelTunables="} {
					if strings.Contains(line, " "+option) && strings.Contains(line, "✓") != tt.own {
						t.Errorf("a mount namespace of its own: want %v, got %s", tt.own, line)
					}
				}
			}
		})
	}
}

// Where systemd runs, a node runs in the sandbox of its unit: it starts, serves, saves and drills a backup, and stops.
func TestUnitRuns(t *testing.T) {
	if comm, err := os.ReadFile("/proc/1/comm"); err != nil || strings.TrimSpace(string(comm)) != "systemd" || os.Geteuid() != 0 {
		t.Skip("needs systemd as process 1, and root")
	}
	story(t)
	built, err := binary()
	must(t, err)
	name := fmt.Sprintf("holdfast-test-%d", os.Getpid())
	dir := "/var/lib/" + name + "-files" // not in /tmp, because the unit has its own
	state := "/var/lib/" + name
	systemctl := func(args ...string) error {
		if out, err := exec.Command("systemctl", args...).CombinedOutput(); err != nil {
			log, _ := exec.Command("journalctl", "--no-pager", "-n", "30", "-u", name).CombinedOutput()
			return fmt.Errorf("systemctl %s: %w\n%s%s", strings.Join(args, " "), err, out, log)
		}
		return nil
	}
	must(t, os.Mkdir(dir, 0o755))
	program, file := filepath.Join(dir, "holdfast"), filepath.Join(dir, "config.yaml")
	path := unit(t, "/run/systemd/system", name, "/usr/local/bin/holdfast", program, "/etc/holdfast.yaml", file,
		"User=holdfast\nGroup=holdfast\n", "DynamicUser=yes\nUser="+name+"\n", "StateDirectory=holdfast\n", "StateDirectory="+name+"\n",
		"/var/lib/holdfast\nUMask", state+"\nUMask", "Restart=always", "Restart=no")
	t.Cleanup(func() {
		_ = systemctl("stop", name)
		os.Remove(path)
		_ = systemctl("daemon-reload")
		_ = systemctl("reset-failed", name) // an error means that there is nothing to reset
		for _, d := range []string{dir, state, "/var/lib/private/" + name} {
			os.RemoveAll(d)
		}
	})
	data, err := os.ReadFile(built)
	if err == nil {
		err = os.WriteFile(program, data, 0o755)
	}
	config := fmt.Sprintf("cluster: {name: unit}\nnode: {name: n1, address: %s1, data-dir: %s/data}\n", integration.Reserve(t), state)
	if err == nil {
		err = os.WriteFile(file, []byte(config), 0o644)
	}
	if err == nil {
		err = systemctl("daemon-reload")
	}
	if err == nil {
		err = systemctl("start", name) // returns when the node says that it is ready
	}
	must(t, err)
	healthy := func() error { return exec.Command(program, "status", "--config", file).Run() }
	for begin := time.Now(); healthy() != nil; time.Sleep(100 * time.Millisecond) { // its exit code says it
		if time.Since(begin) > patience {
			t.Fatalf("not healthy within %s", patience)
		}
	}
	for _, command := range [][]string{{"snapshot", "save"}, {"snapshot", "drill", "latest"}} {
		var out bytes.Buffer
		cmd := exec.Command(program, append(command, "--config", file)...)
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Run(); err != nil {
			t.Errorf("%s: %v\n%s", strings.Join(command, " "), err, out.String())
		}
	}
	if err := systemctl("stop", name); err != nil {
		t.Error(err)
	}
	if out, _ := exec.Command("systemctl", "show", "-p", "Result", "--value", name).Output(); strings.TrimSpace(string(out)) != "success" {
		t.Errorf("it ended with %s", out)
	}
}
