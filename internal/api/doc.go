// Package api is the contract between a coordinator's HTTP side and whoever works through it: the nouns of /v1 with their
// JSON, the ports that a server serves and a client offers again, and errors that keep their exit code and hint on the way.
//
// Reports, estimates, results and statuses are the types of the packages that make them, so that a client prints what the
// embedded mode prints.
package api
