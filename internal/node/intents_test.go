package node

import (
	"net"
	"syscall"
	"testing"
	"time"
)

// A node of intents that waits for the first answer of Redis ends when it is told to, cleanly: it holds nothing.
func TestStopsWhileRedisDoesNotAnswer(t *testing.T) {
	for _, role := range []string{roleWorker, roleBoth} {
		mute, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer mute.Close()
		asked := make(chan struct{}, 1)
		go func() {
			for {
				c, err := mute.Accept()
				if err != nil {
					return
				}
				c.Close()
				select {
				case asked <- struct{}{}:
				default:
				}
			}
		}()
		c := startChild(t, []string{"LEASESTORM_TOKENS=a sha256:" + hex64 + " v3:read", "LEASESTORM_REDIS_URL=redis://" + mute.Addr().String()},
			"--system=intents", "--role="+role, "--api=127.0.0.1:0")
		for range 3 { // times that it has asked in vain
			<-asked
		}
		c.signal(syscall.SIGTERM)
		select {
		case <-c.done:
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: it did not end within 10 s", role)
		}
		if code := c.cmd.ProcessState.ExitCode(); code != exitOK {
			t.Errorf("%s: exit %d, want %d: %s", role, code, exitOK, c.log.String())
		}
	}
}
