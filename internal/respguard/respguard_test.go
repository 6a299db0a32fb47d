package respguard

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/servetest"
)

// inPieces feeds a stream to a scanner, some bytes at a time.
func inPieces(stream string, step int) error {
	var s scanner
	for len(stream) > 0 {
		n := min(step, len(stream))
		if err := s.scan([]byte(stream[:n])); err != nil {
			return err
		}
		stream = stream[n:]
	}
	return nil
}

func TestWhatPasses(t *testing.T) {
	const attr = "|1\r\n+ttl\r\n:3600\r\n"
	for what, stream := range map[string]string{
		"scalars":     "+OK\r\n-ERR x\r\n:1\r\n_\r\n,1.5\r\n#t\r\n(123\r\n$3\r\na\nb\r\n=7\r\ntxt:abc\r\n!5\r\nERR x\r\n$0\r\n\r\n",
		"nothing":     "$-1\r\n*-1\r\n*0\r\n%0\r\n~0\r\n>0\r\n",
		"HELLO":       "%2\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nmodules\r\n*0\r\n",
		"MGET":        "*10000\r\n" + strings.Repeat("$5\r\nvalue\r\n", 9999) + "$-1\r\n",
		"XREADGROUP":  "*1\r\n*2\r\n$3\r\nbus\r\n*1\r\n*2\r\n$3\r\n1-1\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n",
		"push":        strings.Repeat(">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n", 5000),
		"attributes":  strings.Repeat(attr, attrMax) + "+OK\r\n" + attr + "*1\r\n:1\r\n|0\r\n+OK\r\n",
		"longest":     "+" + strings.Repeat("x", lineMax-1) + "\r\n",
		"many":        strings.Repeat("*100000\r\n"+strings.Repeat(":1\r\n", 100_000), 15),
		"deepest":     strings.Repeat("*1\r\n", depthMax) + ":1\r\n" + strings.Repeat("*1\r\n", depthMax) + ":1\r\n",
		"large":       fmt.Sprintf("$%d\r\n%s\r\n+OK\r\n", 4<<20, strings.Repeat("x", 4<<20)),
		"array of >1": "*2\r\n*0\r\n%1\r\n+a\r\n*1\r\n$1\r\nb\r\n+OK\r\n",
	} {
		for _, step := range []int{1, 3, 4096, len(stream)} {
			if err := inPieces(stream, step); err != nil {
				t.Errorf("%s, by %d bytes: %v", what, step, err)
			}
		}
	}
}

// hostile are streams that take memory or the stack of who believes them, each with a word of the error.
var hostile = map[string]struct{ stream, says string }{
	"attributes":           {strings.Repeat("|1\r\n+a\r\n+b\r\n", attrMax+1), "in a row"},
	"attribute in value":   {"*1\r\n|1\r\n", "in attributes or values"},
	"array":                {"*1000000000\r\n", "more than 268435456"},
	"array of arrays":      {strings.Repeat("*600000\r\n", 2), "elements"},
	"map":                  {"%600000\r\n", "elements"},
	"attribute of many":    {"|600000\r\n", "elements"},
	"endless length":       {"*00000000000", "more than"},
	"overflowing length":   {"*9223372036854775807\r\n", "more than"},
	"string":               {"$67108865\r\n", "67108865 bytes"},
	"error":                {"!67108865\r\n", "67108865 bytes"},
	"strings":              {"*5\r\n" + strings.Repeat(fmt.Sprintf("$%d\r\n%s\r\n", bulkMax, strings.Repeat("x", bulkMax)), 4) + "$1\r\n", "268435457"},
	"line":                 {"+" + strings.Repeat("x", lineMax+1), "a line of"},
	"number":               {"(" + strings.Repeat("9", lineMax+1), "a line of"},
	"depth":                {strings.Repeat("*1\r\n", depthMax+1), "deep"},
	"depth of maps":        {strings.Repeat("%1\r\n", depthMax+1), "deep"},
	"other negative":       {"*-5\r\n", "no number"},
	"attributes of less":   {strings.Repeat("|-1\r\n", 1<<20), "no number"},
	"map of less":          {"%-1\r\n", "no number"},
	"set of less":          {"~-1\r\n", "no number"},
	"push of less":         {">-1\r\n", "no number"},
	"verbatim of less":     {"=-1\r\n", "no number"},
	"error of less":        {"!-1\r\n", "no number"},
	"negative zero":        {"$-0\r\n", "no number"},
	"twice negative":       {"$--1\r\n", "no number"},
	"no number":            {"$?\r\n", "no number"},
	"no digits":            {"*\r\n", "no number"},
	"signed":               {"$+5\r\n", "no number"},
	"text after the end":   {"$5\r6\n", "no number"},
	"line end of one byte": {"$5\n", "no number"},
	"another protocol":     {"HTTP/1.1 400 Bad Request\r\n", "0x48, as no answer of Redis does and one of HTTP does"},
}

func TestWhatIsRefused(t *testing.T) {
	for what, c := range hostile {
		for _, step := range []int{1 << 20, 5} {
			if err := inPieces(c.stream, step); !errors.Is(err, ErrReply) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v; want %q in it", what, err, c.says)
			}
		}
	}
}

// serve answers whatever a connection sends with a stream, and then hangs up.
func serve(t *testing.T, stream string) (addr string) {
	t.Helper()
	return servetest.Serve(t, func(c net.Conn) {
		in := bufio.NewReader(c)
		if _, err := in.ReadString('\n'); err == nil {
			_, _ = io.WriteString(c, stream)
			_ = c.(*net.TCPConn).CloseWrite() // what is unread would have it reset
			_, _ = io.Copy(io.Discard, in)
		}
	})
}

// A client says what is wrong, and neither takes memory nor ends the process.
func TestClientIsGuarded(t *testing.T) {
	for what, c := range hostile {
		if what == "strings" {
			continue // honest up to its end
		}
		client := NewClient(&redis.Options{Addr: serve(t, c.stream), MaxRetries: -1, DisableIdentity: true, Protocol: 2})
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := client.Get(context.Background(), "k").Err()
		runtime.ReadMemStats(&after)
		_ = client.Close()
		if took := (after.TotalAlloc - before.TotalAlloc) >> 20; !errors.Is(err, ErrReply) || took > 32 {
			t.Errorf("%s: %v, after %d MiB", what, err, took)
		}
	}
}

// endless reads as strings without end; who writes asks for more.
type endless struct {
	net.Conn

	text []byte
	at   int
}

func (e *endless) Read(b []byte) (int, error) {
	n := copy(b, e.text[e.at:])
	e.at = (e.at + n) % len(e.text)
	return n, nil
}
func (*endless) Write(b []byte) (int, error) { return len(b), nil }
func (*endless) Close() error                { return nil }

// The replies of one pipeline are bounded as one reply is, and what is asked for later is not.
func TestRepliesOfAPipeline(t *testing.T) {
	const size = 1 << 20
	e := &endless{text: fmt.Appendf(nil, "$%d\r\n%s\r\n", size, strings.Repeat("x", size))}
	c := guard(e, nil)
	b := make([]byte, len(e.text))
	for range askedMax/size + 8 {
		if _, err := c.Write(nil); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, b); err != nil {
			t.Fatalf("a reply to each request: %v", err)
		}
	}
	read := 0
	for read <= 2*askedMax {
		n, err := c.Read(b)
		read += n
		if err != nil {
			if !errors.Is(err, ErrReply) {
				t.Error(err)
			}
			break
		}
	}
	if read > askedMax || read < replyMax {
		t.Errorf("%d bytes of one request were read, want at least %d and at most %d", read, replyMax, askedMax)
	}
}

// TLS stays TLS: the guard reads what it has decrypted.
func TestTLS(t *testing.T) {
	cert := httptest.NewTLSServer(nil)
	defer cert.Close()
	l, err := tls.Listen("tcp", "127.0.0.1:0", cert.TLS)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			go func() {
				defer c.Close()
				if _, err := bufio.NewReader(c).ReadString('\n'); err == nil {
					_, _ = io.WriteString(c, "+PONG\r\n*1000000000\r\n")
				}
			}()
		}
	}()
	client := NewClient(&redis.Options{Addr: l.Addr().String(), MaxRetries: -1, DisableIdentity: true, Protocol: 2,
		TLSConfig: cert.Client().Transport.(*http.Transport).TLSClientConfig})
	defer client.Close()
	if err := client.Ping(context.Background()).Err(); !errors.Is(err, ErrReply) {
		t.Errorf("%v; want the guard to see the second reply", err)
	}
}

// Who answers with a certificate of very many names does not fill the log with them.
func TestNamesOfACertificateAreCut(t *testing.T) {
	names := x509.HostnameError{Certificate: &x509.Certificate{DNSNames: slices.Repeat([]string{"name.example"}, 4000)}, Host: "redis"}
	dial := &net.OpError{Op: "dial", Net: "tcp", Err: &tls.CertificateVerificationError{Err: names}}
	client := NewClient(&redis.Options{MaxRetries: -1, DialerRetries: 1,
		Dialer: func(context.Context, string, string) (net.Conn, error) { return nil, dial }})
	defer client.Close()
	err := client.Ping(context.Background()).Err()
	var certificate *tls.CertificateVerificationError
	if err == nil || len(err.Error()) > otherMax+len("…") || !errors.As(err, &certificate) {
		t.Errorf("%.300v", err)
	}
}

const secret = "c4n4ry"

// A server that repeats the command that it refuses does not get the password shown, nor as many bytes as it likes.
func TestThePasswordIsHidden(t *testing.T) {
	for what, text := range map[string]string{
		"error":  "-ERR *3 AUTH default " + secret + " " + strings.Repeat("A", 5000),
		"blob":   "!20\r\nERR AUTH x " + secret + "...",
		"status": "+ERR AUTH " + secret,
	} {
		client := NewClient(&redis.Options{Addr: serve(t, strings.Repeat(text+"\r\n", 5)), Password: secret, MaxRetries: -1,
			DisableIdentity: true, Protocol: 2})
		errs := []error{client.Incr(context.Background(), "k").Err()}
		cmds, err := client.Pipelined(context.Background(), func(p redis.Pipeliner) error {
			p.Incr(context.Background(), "k")
			return nil
		})
		errs = append(errs, err)
		if cmds[0].Err() != nil {
			errs = append(errs, cmds[0].Err()) // go-redis leaves it out where the connection could not log in
		}
		_ = client.Close()
		for i, err := range errs {
			if err == nil || strings.Contains(err.Error(), secret) || len(err.Error()) > saidMax+len("…") {
				t.Errorf("%s, %d: %v", what, i, err)
			}
		}
		var reply redis.Error
		if what != "status" && (!errors.As(errs[0], &reply) || !strings.HasPrefix(errs[0].Error(), "ERR ")) {
			t.Errorf("%s: %v is no error of Redis any more", what, errs[0])
		}
	}
	if err := Hidden(redis.Nil, ""); err != redis.Nil { //nolint:errorlint // the very same
		t.Error(err)
	}
}

// A reply that is no number is quoted by go-redis, and by strconv: escaped and cut, so that the password is not known in it.
func TestWhatCannotBeReadIsNotQuoted(t *testing.T) {
	const secret = `c4n"4ry`
	client := NewClient(&redis.Options{Addr: serve(t, ":1"+secret+"\r\n"), MaxRetries: -1, DisableIdentity: true, Protocol: 2})
	defer client.Close()
	_, number := strconv.Atoi("1" + secret)
	for _, err := range []error{client.Incr(context.Background(), "k").Err(), Hidden(fmt.Errorf("read: %w", number), secret)} {
		if err == nil || strings.Contains(err.Error(), "4ry") || !strings.Contains(err.Error(), "bytes)") {
			t.Error(err)
		}
	}
	if err := Hidden(number, ""); !errors.Is(err, strconv.ErrSyntax) {
		t.Errorf("%v is no error of strconv any more", err)
	}
	pushed := fmt.Errorf("redis: unsupported pubsub message: %q", secret)
	if err := Hidden(pushed, secret); strings.Contains(err.Error(), "4ry") {
		t.Error(err)
	}
	if got := Shown("a\x1b"+secret+"b", secret); got != `a\u001b…b` {
		t.Errorf("%q", got)
	}
}

// An error among the elements of a reply is one of the command: as an element it would be text that whoever reads the elements shows.
func TestErrorsAmongElements(t *testing.T) {
	for _, reply := range []string{"*2\r\n$1\r\na\r\n-ERR AUTH " + secret + "\r\n", "*1\r\n*1\r\n-" + secret + "\r\n"} {
		addr := servetest.Serve(t, func(c net.Conn) {
			servetest.Commands(c, func(words []string) string {
				if words[0] == "hello" {
					return "-ERR no HELLO\r\n"
				}
				return reply
			})
		})
		client := NewClient(&redis.Options{Addr: addr, MaxRetries: -1, DisableIdentity: true, Protocol: 2})
		client.AddHook(Hide(secret))
		ctx := t.Context()
		errs := []error{client.Eval(ctx, "", nil).Err(), client.HMGet(ctx, "k", "f").Err(), client.Do(ctx, "x").Err()}
		cmds, err := client.Pipelined(ctx, func(p redis.Pipeliner) error { p.EvalSha(ctx, "", nil); return nil })
		_ = client.Close()
		for i, err := range append(errs, err, cmds[0].Err()) {
			var said redis.Error
			if !errors.As(err, &said) || strings.Contains(err.Error(), secret) || !strings.Contains(err.Error(), "element") {
				t.Errorf("%q, %d: %v", reply, i, err)
			}
		}
	}
}

// FuzzScan: what is refused does not depend on how it comes in, and what passes costs go-redis no more than what a reply may.
func FuzzScan(f *testing.F) {
	for _, c := range hostile {
		if len(c.stream) < 4096 {
			f.Add([]byte(c.stream), byte(2))
		}
	}
	f.Add([]byte("%1\r\n$1\r\na\r\n*2\r\n:1\r\n_\r\n|1\r\n+a\r\n+b\r\n+OK\r\n$-1\r\n!5\r\nERR x\r\n"), byte(3))
	f.Fuzz(func(t *testing.T, stream []byte, step byte) {
		whole, pieces := inPieces(string(stream), len(stream)+1), inPieces(string(stream), int(step)+1)
		if (whole == nil) != (pieces == nil) {
			t.Fatalf("at once %v, in pieces %v", whole, pieces)
		}
		if values, honest := valid(stream, 0); honest && whole != nil {
			t.Fatalf("%d values that are honest are refused: %v", values, whole)
		}
		client := NewClient(&redis.Options{MaxRetries: -1, DisableIdentity: true, Protocol: 2,
			Dialer: func(context.Context, string, string) (net.Conn, error) { return &canned{rest: stream}, nil }})
		defer client.Close()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _ = client.Do(context.Background(), "GET", "k").Result()
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > 2*bulkMax+200*elementMax {
			t.Fatalf("%d bytes for %d", took, len(stream))
		}
	})
}

// valid reads a stream of honest values without attributes, by recursion and without lengths that matter, and counts them.
func valid(b []byte, depth int) (values int, ok bool) {
	for len(b) > 0 {
		if b, ok = value(b, depth); !ok {
			return values, false
		}
		values++
	}
	return values, true
}

func value(b []byte, depth int) (rest []byte, ok bool) {
	line, after, ok := strings.Cut(string(b), "\r\n")
	if !ok || line == "" || depth > 8 || strings.ContainsAny(line, "\r\n") || len(line) > 1000 {
		return nil, false
	}
	b = []byte(after)
	if strings.Contains("+-:_,#(", line[:1]) {
		return b, true
	}
	n, err := strconv.Atoi(line[1:])
	if err != nil || n > 1000 || n < 0 || line[1:] != strconv.Itoa(n) {
		return b, err == nil && n == -1 && line[1:] == "-1" && strings.Contains("$*", line[:1])
	}
	switch line[0] {
	case '$', '=', '!':
		if len(b) < n+2 {
			return nil, false
		}
		return b[n+2:], true
	case '%':
		n *= 2
	case '*', '~', '>':
	default:
		return nil, false
	}
	for range n {
		if b, ok = value(b, depth+1); !ok {
			return nil, false
		}
	}
	return b, true
}

// canned is a connection on which a stream comes.
type canned struct {
	net.Conn
	rest []byte
}

func (c *canned) Read(b []byte) (int, error) {
	n := copy(b, c.rest)
	c.rest = c.rest[n:]
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}
func (*canned) Write(b []byte) (int, error)      { return len(b), nil }
func (*canned) Close() error                     { return nil }
func (*canned) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (*canned) SetDeadline(time.Time) error      { return nil }
func (*canned) SetReadDeadline(time.Time) error  { return nil }
func (*canned) SetWriteDeadline(time.Time) error { return nil }

// BenchmarkScan: pages of leases as MGET returns them, one session of 10 kB, and numbers.
func BenchmarkScan(b *testing.B) {
	for what, stream := range map[string]string{
		"MGET":    "*1000\r\n" + strings.Repeat("$60\r\n"+strings.Repeat("x", 60)+"\r\n", 1000),
		"large":   fmt.Sprintf("$%d\r\n%s\r\n", 10_000, strings.Repeat("x", 10_000)),
		"numbers": strings.Repeat(":1\r\n", 1000),
	} {
		b.Run(what, func(b *testing.B) {
			var s scanner
			data := []byte(stream)
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				if err := s.scan(data); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(data))*1024, "ns/KiB")
		})
	}
}

// Of what servers say that are told passwords which nobody here knows, their codes are shown: one that does not know AUTH repeats it.
func TestOnlyTheCodeIsShown(t *testing.T) {
	said := refusal{hidden{"ERR unknown command `auth`, with args beginning with: `c4n4ry`", errors.New("said")}}
	other := &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("refused")}
	begins := refusal{hidden{"ERR unknown command", errors.New("said")}}
	code := refusal{hidden{"c4n4ry is wrong", errors.New("said")}}
	err := fmt.Errorf("all sentinels are unreachable: %w", errors.Join(begins, said, fmt.Errorf("one: %w", said), code, other))
	got := Coded(err)
	var reply redis.Error
	var netErr *net.OpError
	if text := got.Error(); text != "all sentinels are unreachable: ERR\nERR\none: ERR\nan error\ndial tcp: refused" || !errors.As(got, &reply) || !errors.As(got, &netErr) {
		t.Errorf("%q", text)
	}
	for _, why := range []error{
		&strconv.NumError{Func: "Atoi", Num: secret, Err: strconv.ErrSyntax},
		&net.DNSError{Err: "no such host", Name: secret},
		&net.AddrError{Err: "too many colons in address", Addr: secret},
		&net.ParseError{Type: "IP address", Text: secret},
		errors.New("redis: can't parse reply: \"" + secret + "\""),
		x509.HostnameError{Certificate: &x509.Certificate{DNSNames: []string{secret}}, Host: secret},
		x509.UnknownAuthorityError{Cert: &x509.Certificate{Subject: pkix.Name{CommonName: secret}}},
		x509.CertificateInvalidError{Cert: &x509.Certificate{}, Reason: x509.NameConstraintsWithoutSANs, Detail: secret},
		&net.OpError{Op: "dial", Net: "tcp", Addr: &net.UnixAddr{Name: secret}, Err: errors.New("refused")},
		&net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.ParseIP("fe80::1"), Port: 1, Zone: secret}, Err: errors.New("refused")},
		fmt.Errorf("%w (of %s)", said, secret),
		fmt.Errorf("a name of %q", secret),
		errors.New("tls: failed to parse certificate from server: x509: cannot parse URI \"http://" + secret + "..x/\": invalid domain"),
		errors.New("x509: " + secret),
	} {
		got := Coded(fmt.Errorf("one: %w", &net.OpError{Op: "dial", Net: "tcp", Err: why}))
		if text := got.Error(); strings.Contains(text, secret) || !strings.HasPrefix(text, "one: dial tcp: ") || !errors.As(got, &netErr) {
			t.Errorf("%T: %q", why, text)
		}
	}
	if got := Coded(other); got.Error() != other.Error() || errors.As(got, &reply) {
		t.Errorf("an error that no server said became %v", got)
	}
}
