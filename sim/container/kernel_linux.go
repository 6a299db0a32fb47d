package container

import "golang.org/x/sys/unix"

// kernel returns the release of the kernel that this program runs on, as engines tell theirs.
func kernel() string {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return ""
	}
	return unix.ByteSliceToString(name.Release[:])
}
