package levels

import (
	"context"
	"slices"
)

type leaseKey struct{}

// WithLease returns a context whose changes are made under a lease, beside those that it was under already: a place that keeps leases
// beside what it changes refuses them with ErrFenced, in the same transaction, once one of the leases has been passed on.
func WithLease(ctx context.Context, lease Lease) context.Context {
	return context.WithValue(ctx, leaseKey{}, append(slices.Clone(LeasesOf(ctx)), lease))
}

// LeasesOf returns the leases that a context's changes are made under.
func LeasesOf(ctx context.Context) []Lease {
	leases, _ := ctx.Value(leaseKey{}).([]Lease)
	return leases
}
