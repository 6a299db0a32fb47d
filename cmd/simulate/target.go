package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/leasestorm/leasestorm/sim/real/target"
)

const targetListen = "127.0.0.1:9090"

func newTarget() *cobra.Command {
	var t target.Server
	cmd := &cobra.Command{
		Use:   "target",
		Short: "Serve the polled target, for a fleet that simulate did not start",
		Long: `Serve the target of a storm: POST /poll/<session> with X-Instance and X-Fence (docs/node-protocol.md), and the slots of
intents (POST and DELETE /tune/<slot>). A fence lower than the highest seen gets 409.

GET /sessions lists the last poll of each session, with instance, fence and count, one JSON object a line. GET /healthz answers 200.
Neither needs a password.

Standard output: one line of history.jsonl for the begin and the end of each poll; t is CLOCK_MONOTONIC of the host in ns. Polls wait
until the line is read.
SIGTERM, SIGINT: stop cleanly, exit 0. Exit code 3: it cannot listen, or nobody reads its output.`,
		Example: `  simulate target --listen 127.0.0.1:9090
  simulate target health 127.0.0.1:9090         0 if it serves there, 1 if not: the health check of a container`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if t.Serve < 0 || t.Serve > time.Hour {
				return fmt.Errorf("--serve %v: must be from 0 to 1h", t.Serve)
			}
			if err := listenable(t.Addr); err != nil {
				return fmt.Errorf("--listen %w", err)
			}
			t.Out = cmd.OutOrStdout()
			t.Started = func(url string) { fmt.Fprintf(cmd.ErrOrStderr(), "simulate: target at %s\n", url) }
			return t.Run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&t.Addr, "listen", targetListen, "`HOST:PORT`")
	cmd.Flags().DurationVar(&t.Serve, "serve", 0, "how long an answer takes")
	cmd.SetFlagErrorFunc(flagError)
	cmd.AddCommand(newTargetHealth())
	return cmd
}

func newTargetHealth() *cobra.Command {
	return &cobra.Command{
		Use:   "health [HOST:PORT]",
		Short: "Check whether a target serves, and exit with 0 or 1",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			addr := strings.Join(append(args, targetListen)[:1], "")
			if err := listenable(addr); err != nil {
				return err
			}
			if err := askTarget(cmd.Context(), addr); err != nil {
				fmt.Fprintf(cmd.ErrOrStderr(), "simulate: %v\n", err)
				return verdictError(exitFail)
			}
			return nil
		},
	}
}

func listenable(addr string) error {
	if _, port, err := net.SplitHostPort(addr); err != nil || port == "" {
		return fmt.Errorf("%q: must be host:port, such as %s", addr, targetListen)
	}
	return nil
}

const targetWithin = 5 * time.Second

// askTarget returns nil if a target serves at the address. For an unspecified host it uses 127.0.0.1.
func askTarget(ctx context.Context, addr string) error {
	host, port, _ := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+"/healthz", nil)
	if err != nil {
		return err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: targetWithin} // without a proxy
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 64))
	if err != nil || resp.StatusCode != http.StatusOK || strings.TrimSpace(string(text)) != "ok" {
		return errors.Join(fmt.Errorf("%s is not a target: it answered status %d", addr, resp.StatusCode), err)
	}
	return nil
}
