package main

// hiddenMode runs what this binary is besides the simulator, if the arguments ask for it.
func hiddenMode(args []string) (code int, ok bool) {
	return 0, false
}
