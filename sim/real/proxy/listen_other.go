//go:build !linux

package proxy

// refuse and listenAgain do nothing: here a bound socket cannot stop listening, so a shut listener accepts and resets connections.
func refuse(int) error      { return nil }
func listenAgain(int) error { return nil }
