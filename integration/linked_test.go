package integration_test

import (
	"bytes"
	"os"
	"testing"
)

// Of the SDKs' clients, only the called operations are linked. If reflection could reach a client's type, the linker
// would keep all of its operations; EC2's alone are 30 MB.
func TestUnusedOperationsAreNotLinked(t *testing.T) {
	story(t)
	path, err := binary()
	must(t, err)
	data, err := os.ReadFile(path)
	must(t, err)
	for name, want := range map[string]bool{
		"service/ec2.(*Client).AttachVolume":          true, // the binary contains the names of its functions
		"service/ec2.(*Client).AcceptAddressTransfer": false,
	} {
		if got := bytes.Contains(data, []byte(name)); got != want {
			t.Errorf("%s is linked: %t, want %t; -ldflags=-dumpdep says by what its client's type is UsedInIface",
				name, got, want)
		}
	}
}
