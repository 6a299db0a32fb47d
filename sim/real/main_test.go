package real

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// The test binary plays all parts: the tests, a node, the reaper, and a simulator that is killed.
func TestMain(m *testing.M) {
	ReaperMain()
	switch os.Getenv("REAL_TEST_PART") {
	case "node":
		os.Exit(fakeNode())
	case "dial":
		dialPart(os.Args[2:])
		return
	case "simulator":
		os.Exit(fakeSimulator())
	}
	// go-redis tries a server that is gone once a second, for one second beyond Close.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}
