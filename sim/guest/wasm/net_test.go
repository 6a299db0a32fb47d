package wasm

import "testing"

// connected starts a part that dials, and connects it.
func connected(t *testing.T, part string) (w *world, conn int32) {
	t.Helper()
	w = start(t, part)
	w.wait(t)
	w.did(t, "dial 3 10.0.0.1:6379\n")
	w.program.Connected(3, "")
	w.wait(t)
	return w, 3
}

func TestTalks(t *testing.T) {
	w, conn := connected(t, "talk")
	w.did(t, "write 3 \"begin\\n\"\n")
	w.program.Deliver(conn, []byte("on"))
	w.program.Run()
	w.did(t, "")
	w.program.Deliver(conn, []byte("e\ntw"))
	w.program.Deliver(conn, []byte("o\n"))
	w.program.Run()
	w.did(t, "write 3 \"got one\\n\"\nwrite 3 \"got two\\n\"\n")
	w.program.Deliver(conn, []byte("three\n"))
	w.program.HangUp(conn, false)
	w.finish(t, 0, "connected to 10.0.0.1:6379\nend: <nil> false false <nil>\n<nil>\n")
	w.did(t, "write 3 \"got three\\n\"\nwrite 3 \"still there?\\n\"\nclose 3\n")
}

func TestResetDropsWhatIsUnread(t *testing.T) {
	w, conn := connected(t, "talk")
	w.program.Deliver(conn, []byte("one\n"))
	w.program.HangUp(conn, true)
	w.finish(t, 0, "connected to 10.0.0.1:6379\nend: read tcp :0->10.0.0.1:6379: read: connection reset by peer true false "+
		"write tcp :0->10.0.0.1:6379: write: broken pipe\n<nil>\n")
	w.did(t, "write 3 \"begin\\n\"\nclose 3\n")
}

func TestReadDeadlineIsOfTheHostsClock(t *testing.T) {
	w, conn := connected(t, "talk")
	w.program.Deliver(conn, []byte("one\n"))
	w.finish(t, 0, "connected to 10.0.0.1:6379\nend: read tcp :0->10.0.0.1:6379: i/o timeout false true <nil>\n<nil>\n")
	if w.mono < 6e9 || w.mono > 6.1e9 {
		t.Errorf("it ended at %d", w.mono)
	}
}

func TestConnectionIsRefused(t *testing.T) {
	w := start(t, "dial")
	w.wait(t)
	w.program.Connected(3, "connection refused")
	w.finish(t, 0, "dial tcp 10.0.0.1:6379: connect: connection refused true\n")
	w.did(t, "dial 3 10.0.0.1:6379\nclose 3\n")
}

// A program has no name server: the host gets the name.
func TestDialsNames(t *testing.T) {
	w := start(t, "name")
	w.wait(t)
	w.did(t, "dial 3 redis.example.com:6379\n")
	w.program.Connected(3, "")
	w.wait(t)
	w.did(t, "close 3\ndial 4 127.0.0.1:6379\n")
	w.program.Connected(4, "")
	w.wait(t)
	w.did(t, "close 4\ndial 5 redis.example.com:26379\n")
	w.program.Connected(5, "no route to host")
	w.finish(t, 0, "node-1 <nil>\n198.18.0.0:6379\n127.0.0.1:6379\ndial tcp 198.18.0.0:26379: connect: no route to host\n")
}

func TestDialGivesUp(t *testing.T) {
	w := start(t, "give up")
	w.finish(t, 0, "dial tcp 10.0.0.1:6379: i/o timeout true\n")
	w.program.Connected(3, "") // too late
	w = start(t, "cancel")
	w.finish(t, 0, "dial tcp 10.0.0.1:6379: operation was canceled\n")
	w.did(t, "dial 3 10.0.0.1:6379\nclose 3\n")
}

func TestServerInsideOfTheProgram(t *testing.T) {
	w := start(t, "inside")
	w.finish(t, 0, "served /page <nil>\n")
	w.did(t, "")
}

func TestSignalIsHandled(t *testing.T) {
	w := start(t, "term")
	w.wait(t)
	conn := int32(3)
	w.did(t, "dial 3 10.0.0.1:6379\n")
	w.program.Connected(conn, "")
	w.wait(t)
	w.program.Deliver(conn, []byte("a line\n"))
	w.wait(t)
	w.program.Signal()
	w.finish(t, 0, "a line\nstopping: terminated signal received\nstopped\n")
}

func TestSignalEndsWhatDoesNotHandleIt(t *testing.T) {
	w := start(t, "sleep")
	w.program.Run()
	w.program.Signal()
	w.finish(t, 143, "")

	w = start(t, "stop") // handles it no longer
	w.program.Run()
	w.mono += 1e9
	w.program.Run()
	w.program.Signal()
	w.finish(t, 143, "no handler\n")

	w = start(t, "ignore")
	w.program.Run()
	w.program.Signal()
	w.finish(t, 0, "alive\n")
}

func TestPipeInsideOfTheProgram(t *testing.T) {
	start(t, "pipe").finish(t, 0, "\"line 0\\nline 1\\nline 2\\n\" <nil>\nread from: i/o timeout\nwrite to: broken pipe\n")
}
