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
	case "simulator":
		os.Exit(fakeSimulator())
	}
	goleak.VerifyTestMain(m)
}
