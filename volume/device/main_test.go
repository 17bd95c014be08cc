package device

import (
	"testing"

	"holdfast/volume/device/devicetest"
)

func TestMain(m *testing.M) { devicetest.Main(m) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
