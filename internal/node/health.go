package node

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/net/netutil"

	"github.com/leasestorm/leasestorm/internal/plain"
	"github.com/leasestorm/leasestorm/lease"
)

func newMetrics() (*prometheus.Registry, http.Handler) {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r, promhttp.HandlerFor(r, promhttp.HandlerOpts{DisableCompression: true})
}

// watch serves /healthz, /metrics and /readyz at --health, if set. /readyz reports health, and then the answer of ready unless it is nil.
func (s *settings) watch(ctx context.Context, metrics http.Handler, health func() lease.Health, ready http.Handler,
	failed chan<- error) (*http.Server, error) {
	if s.healthAddr == "" {
		return nil, nil
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		switch h := health(); {
		case !h.OK():
			http.Error(w, h.String(), http.StatusServiceUnavailable)
		case ready != nil:
			ready.ServeHTTP(w, r)
		default:
			fmt.Fprintln(w, h)
		}
	})
	return serveAt(ctx, s.healthAddr, healthVariable+" (--health)", mux, 0, failed)
}

const askWithin = 5 * time.Second

// askHealth requests /readyz from the node on this host, as a container's health check that needs no other program.
func askHealth(args []string) (int, error) {
	addr := os.Getenv(healthVariable)
	if len(args) == 1 && !strings.HasPrefix(args[0], "-") {
		addr = args[0]
	} else if len(args) > 0 {
		return 0, fmt.Errorf("health: unexpected argument %q; it takes the address that --health names, or %s", args[0], healthVariable)
	}
	host, port, err := net.SplitHostPort(addr)
	number, bad := strconv.ParseUint(port, 10, 16)
	if err != nil || bad != nil || number == 0 || strings.ContainsAny(host, "/?#@ ") {
		return 0, fmt.Errorf("health: %s is %q; it must be host:port, where a node serves --health", healthVariable, addr)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1" // it listens on all addresses
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: askWithin} // without a proxy
	resp, err := client.Get("http://" + net.JoinHostPort(host, port) + "/readyz")
	if err != nil {
		complain(err)
		return exitDirty, nil
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
	fmt.Fprintln(os.Stdout, plain.Text(strings.TrimSpace(string(text))))
	if err != nil || resp.StatusCode != http.StatusOK {
		return exitDirty, nil
	}
	return exitOK, nil
}

// serveAt serves h at addr, the value of that setting, with up to conns connections, 0 for no limit. ctx bounds the name lookup.
func serveAt(ctx context.Context, addr, setting string, h http.Handler, conns int, failed chan<- error) (*http.Server, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", setting, err)
	}
	if conns > 0 {
		listener = netutil.LimitListener(listener, conns)
	}
	server := newServer(addr, h)
	go func() { failed <- fmt.Errorf("%s: it ended: %w", setting, server.Serve(listener)) }()
	return server, nil
}

// newServer limits slow clients and endless requests.
func newServer(addr string, h http.Handler) *http.Server {
	return &http.Server{
		Addr: addr, Handler: h, MaxHeaderBytes: 8 << 10,
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 15 * time.Second, IdleTimeout: time.Minute,
	}
}

// apiStopWithin bounds how long a stopping API waits for its running requests, and then for its log.
const apiStopWithin = time.Second

func shut(server *http.Server) {
	if server == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), apiStopWithin)
	defer cancel()
	if server.Shutdown(ctx) != nil {
		_ = server.Close()
	}
}
