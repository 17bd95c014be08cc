package ebs

// deviceNames are the names that AWS recommends for EBS volumes of Linux instances, /dev/sd[f-p] and
// /dev/xvd[b-c][a-z] ("Device names for volumes on Amazon EC2 instances"). On Nitro instances a name is a
// label only, and the device is found by its serial.
func deviceNames() []string {
	var names []string
	for c := 'f'; c <= 'p'; c++ {
		names = append(names, "/dev/sd"+string(c))
	}
	for _, b := range "bc" {
		for c := 'a'; c <= 'z'; c++ {
			names = append(names, "/dev/xvd"+string(b)+string(c))
		}
	}
	return names
}
