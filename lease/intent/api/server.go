package api

import (
	"net/http"
	"time"
)

// NewServer returns a server for h that limits slow clients and endless requests. Bound its connections with
// golang.org/x/net/netutil.LimitListener. For TLS, set TLSConfig and call ServeTLS.
func NewServer(addr string, h http.Handler) *http.Server {
	return &http.Server{
		Addr: addr, Handler: h, MaxHeaderBytes: 8 << 10,
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 15 * time.Second, IdleTimeout: time.Minute,
	}
}
