package ebs

import (
	"testing"

	"holdfast/volume/device/devicetest"
)

func TestMain(m *testing.M) { devicetest.Main(m) }
