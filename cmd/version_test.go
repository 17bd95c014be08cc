package cmd

import (
	"strings"
	"testing"
)

func TestVersionPrintsTheSBOM(t *testing.T) {
	out, err := execute("version", "--sbom")
	if err != nil || !strings.Contains(out, `"bomFormat": "CycloneDX"`) || !strings.Contains(out, buildVersion()) {
		t.Errorf("got %s, %v", out, err)
	}
}
