// Package telemetry shows what aerie's programs do: metrics for Prometheus, logs, traces, and the probes by which an
// orchestrator judges a process.
//
// The packages that do the work know nothing of it: it wraps their ports and implements their observers. Every metric
// is a row of [Metrics].
package telemetry
