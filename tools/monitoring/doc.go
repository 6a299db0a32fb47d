// Package monitoring checks docker/monitoring/dashboard.json where no Grafana is: decoded strictly and validated by Grafana's own types of
// a dashboard, its panels and Prometheus' query, and with each query read by Prometheus' own parser. Alerts are checked by promtool
// (lease/metrics).
package monitoring
